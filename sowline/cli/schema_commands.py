"""`sowline schemas`: fetches schemas from a registry, checks them against reader schemas, and lists what is known."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click
import orjson
import yaml
from confluent_kafka import KafkaException

from sowline.cli.columns import columns
from sowline.cli.completion import complete_topic, topic_argument
from sowline.cli.help import HelpGroup
from sowline.cli.operate import stack_settings
from sowline.codecs.compatibility import why_unreadable
from sowline.codecs.schema import AVRO, JSON_SCHEMA, PROTOBUF, CodecType, Schema
from sowline.config.settings import Settings, read_settings
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topics import load_topics
from sowline.errors import SowlineError
from sowline.kafka.schema_log import read_schema_log
from sowline.registry.client import Registry, RegistryAway, Resolved

_PATH = click.Path(path_type=Path)
_SUFFIXES: dict[CodecType, str] = {AVRO: ".avsc", PROTOBUF: ".proto", JSON_SCHEMA: ".json"}

_registry = click.option("--registry", help="The schema registry's URL (SOWLINE_REGISTRY).")
_config = click.option("--config", type=_PATH, help="The file of topics (SOWLINE_CONFIG).")

Row = dict[str, Any]


@click.group(cls=HelpGroup)
def schemas() -> None:
    """Schemas of message types: fetch them, check that they can be read, list what a topic knows."""


@schemas.command(
    examples=(
        "sowline schemas pull orders-value --version 3",
        "sowline schemas pull orders-value --directory schemas",
    )
)
@click.argument("subject")
@click.option("--version", type=click.IntRange(1), help="Not the latest version, but this one.")
@click.option(
    "--directory", type=_PATH, help="Write the schema and its references as files there, new or replaced."
)
@_registry
def pull(subject: str, version: int | None, directory: Path | None, registry: str | None) -> None:
    """Print the schema of SUBJECT in the registry.

    With a --directory, write it and its references as files, and print the `reader_schema` for topics.yaml.
    """
    with _connected(_settings(registry=registry)) as client:
        found = client.latest(subject) if version is None else client.version(subject, version)
    if directory is not None:
        click.echo(_written(found, directory), nl=False)
        return
    click.echo(found.schema.text)
    if found.schema.references:
        names = ", ".join(name for name, _ in found.schema.references)
        click.echo(f"sowline: it refers to {names}; --directory writes these, too", err=True)


@schemas.command(examples=("sowline schemas check orders --registry http://127.0.0.1:8081",))
@click.argument("topic", required=False, shell_complete=complete_topic)
@_registry
@_config
def check(topic: str | None, registry: str | None, config: Path | None) -> None:
    """Check that the reader schema of TOPIC reads every version of its subject; without TOPIC, check all topics.

    Prints a line for each version, and exits with 1 if one can't be read.
    """
    settings = _settings(registry=registry, config=config)
    defined = load_topics(settings.config)
    if topic is None:
        definitions = [
            one for one in defined.topics if one.declared.reader_schema and one.declared.reader_schema.subject
        ]
    else:
        definitions = [defined.named(topic)]
        _require_schemas(definitions[0])
    if not all(map(_subject, definitions)) or not definitions:
        raise SowlineError(
            "bad configuration",
            f"expected a reader_schema with a subject in {settings.config}, got none: add the subject",
        )
    with _connected(settings) as client:
        rows = [row for definition in definitions for row in _checked(client, definition)]
    _print(rows, ("topic", "subject", "version", "id", "readable", "problem"), "<<>><<")
    sys.exit(not all(row["readable"] for row in rows))


@schemas.command("list", examples=("sowline schemas list orders",))
@topic_argument
@_config
@click.option("--kafka", "-k", help="Kafka's bootstrap servers (SOWLINE_KAFKA).")
def list_(topic: str, config: Path | None, kafka: str | None) -> None:
    """List the schemas that each partition of TOPIC knows: reader schemas, and those that messages have named."""
    settings = _settings(config=config, kafka=kafka)
    definition = load_topics(settings.config).named(topic)
    reader = _require_schemas(definition)
    try:
        known = read_schema_log(settings.kafka_client, definition)
    except (KafkaException, TimeoutError) as error:
        raise SowlineError(
            "no kafka",
            f"expected {definition.kafka.schema_log} from Kafka at {settings.kafka}, got {error}",
        ) from error
    rows: list[Row] = []
    for number, resolutions in known.items():
        for digest in resolutions.readers:
            state = "reader schema" if digest == reader.digest else "earlier reader schema"
            rows.append(_listed(number, None, "", 0, digest, state))
        for schema_id, (schema, subject, version, problem) in sorted(resolutions.writers.items()):
            digest = "" if schema is None else schema.digest
            state = problem or ("unknown" if schema is None else "known")
            rows.append(_listed(number, schema_id, subject, version, digest, state))
    _print(rows, ("partition", "id", "subject", "version", "digest", "state"), ">><><<")


def _listed(partition: int, id: int | None, subject: str, version: int, digest: str, state: str) -> Row:
    return {
        "partition": partition,
        "id": id,
        "subject": subject,
        "version": version or None,
        "digest": digest,
        "state": state,
    }


def _settings(**given: Any) -> Settings:
    """Return the settings: the options of a command before those of the running `sowline up`."""
    chosen = {name: value for name, value in given.items() if value is not None}
    if not chosen.keys() & {"config", "kafka"} and given.keys() & {"config", "kafka"}:
        found = {name.removeprefix("SOWLINE_").lower(): value for name, value in stack_settings().items()}
        chosen = found | chosen
    return read_settings(**chosen)


@contextmanager
def _connected(settings: Settings) -> Iterator[Registry]:
    if not settings.registry:
        raise SowlineError(
            "bad configuration",
            "expected the URL of a schema registry, got none: add --registry, or set SOWLINE_REGISTRY",
        )
    with closing(Registry(settings.registry)) as registry:
        yield registry


def _written(found: Resolved, directory: Path) -> str:
    """Write a schema and its references into a directory; return the definition's field with them."""
    type = found.schema.type
    file = directory / _file_name(found.subject, type)
    references = {name: directory / _file_name(name, type) for name, _ in found.schema.references}
    texts = dict(zip(references.values(), (text for _, text in found.schema.references), strict=True))
    texts[file] = found.schema.text
    # The names `a/b` and `a_b` make the same file, and the second schema would replace the first.
    if len(texts) <= len(references):
        raise SowlineError(
            "bad schema", f"expected references whose files differ, got {', '.join(references)}"
        )
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    fields = {
        "file": str(file),
        "id": found.id,
        "subject": found.subject,
        "references": {name: str(path) for name, path in references.items()},
        "message": found.schema.message,
    }
    given = {name: value for name, value in fields.items() if value not in (None, "", {})}
    return yaml.safe_dump({"reader_schema": given}, sort_keys=False, allow_unicode=True)


def _file_name(name: str, type: CodecType) -> str:
    """Return the name of a schema's file. A registry's names may contain anything, such as `../`."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", name)
    return safe if safe.endswith(_SUFFIXES[type]) else safe + _SUFFIXES[type]


def _require_schemas(definition: TopicDefinition) -> Schema:
    """Return the reader schema of a topic; raise `bad request` for a JSON topic."""
    if definition.reader is None:
        raise SowlineError(
            "bad request",
            f"expected a topic whose message type has schemas, got {definition.name} of message type json",
        )
    return definition.reader


def _subject(definition: TopicDefinition) -> str:
    return "" if definition.declared.reader_schema is None else definition.declared.reader_schema.subject


def _checked(registry: Registry, definition: TopicDefinition) -> Iterator[Row]:
    reader, subject = _require_schemas(definition), _subject(definition)
    versions = registry.versions(subject)
    if not versions:
        raise SowlineError(
            "unknown schema",
            f"expected versions of {subject} in the registry, found none: correct the subject",
        )
    for number in versions:
        about = {"topic": definition.name, "subject": subject, "version": number}
        try:
            found = registry.version(subject, number)
        # A registry that is away says nothing about the version: no line may report that one as unreadable.
        except RegistryAway:
            raise
        except SowlineError as error:
            yield about | {"id": None, "readable": False, "problem": error.message}
            continue
        problem = why_unreadable(reader, found.schema)
        yield about | {"id": found.id, "readable": not problem, "problem": problem}


def _print(rows: Sequence[Mapping[str, Any]], names: tuple[str, ...], sides: str) -> None:
    """Print a table on a terminal, and a line of JSON for each row in a pipe."""
    if not _is_terminal():
        for row in rows:
            click.echo(orjson.dumps(row))
        return
    cells = (tuple(_cell(row[name]) for name in names) for row in rows)
    click.echo("\n".join(columns(tuple(name.upper() for name in names), cells, sides)))


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value in (None, "") else str(value)
