"""`python -m sowline_materializer dump` and the other commands on a state: inspect, check, back up, rebuild."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import orjson
from confluent_kafka import KafkaException

from sowline.cli import CliGroup
from sowline.cli.help import CONTEXT, cli_command
from sowline.cli.output import Output
from sowline.cli.progress import ProgressLine
from sowline.config.settings import Settings, read_settings
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topics import Topics, load_topics
from sowline.errors import SowlineError
from sowline_materializer.admin.backup import back_up, open_backup
from sowline_materializer.admin.dump import dump_lines
from sowline_materializer.admin.offline_copy import OfflineCopies, OfflineCopy
from sowline_materializer.admin.rebuild import rebuild as rebuild_state
from sowline_materializer.admin.restore import restore as restore_backup
from sowline_materializer.admin.verify import sentences
from sowline_materializer.admin.verify import verify as verify_partition
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.store.errors import DiskFull, NoDescriptors
from sowline_materializer.worker.assignment import partition_path
from sowline_materializer.worker.worker import group_of

PATH = click.Path(path_type=Path)

Command = Callable[..., None]


@dataclass(frozen=True)
class Operated:
    """A topic that a command works on, and a temporary directory for it."""

    settings: Settings
    topics: Topics
    definition: TopicDefinition
    directory: Path

    def asides(self, partition: int | None = None, *, keep: bool = False) -> Iterator[OfflineCopies]:
        """Yield the offline copies of each partition, or of the requested one.

        Unless `keep` is set, a partition's copies are deleted when the next one is requested.
        """
        partitions = range(self.definition.partitions)
        if partition is not None and partition not in partitions:
            raise SowlineError(
                "bad request",
                f"expected a partition of {self.definition.name} (0 to {partitions[-1]}), got {partition}",
            )
        for number in partitions if partition is None else (partition,):
            directory = self.directory / str(number)
            yield OfflineCopies(
                self.settings.kafka_client, self.definition, number, directory, ProgressLine()
            )
            # Otherwise the temporary directory would need room for copies of all partitions at once.
            if not keep:
                shutil.rmtree(directory, ignore_errors=True)

    @contextmanager
    def source_copies(self, topic: str, partition: int) -> Iterator[OfflineCopies]:
        """Lend the offline copies of a partition of a topic that a view reads; they are deleted after it."""
        source = self.topics.named(topic)
        with tempfile.TemporaryDirectory(prefix="source-", dir=self.directory) as directory:
            yield OfflineCopies(
                self.settings.kafka_client, source, partition, Path(directory), ProgressLine()
            )

    def path(self, partition: int) -> Path:
        """Return the path of a partition's store on this machine, if it exists."""
        return partition_path(self.settings.data_dir, self.definition, partition)


@contextmanager
def operating(
    topic: str, kafka: str | None, config: Path | None, data_dir: Path | None
) -> Iterator[Operated]:
    """Lend a topic to work on; the command's options override the settings."""
    given: dict[str, Any] = {"kafka": kafka, "config": config, "data_dir": data_dir}
    try:
        settings = read_settings(**{name: value for name, value in given.items() if value is not None})
        topics = load_topics(settings.config)
        definition = topics.named(topic)
        with tempfile.TemporaryDirectory(prefix="sowline-") as directory:
            yield Operated(settings, topics, definition, Path(directory))
    except KafkaException as error:
        raise SowlineError("no kafka", f"Kafka at {settings.kafka} refused the request: {error}") from error
    except DiskFull as full:
        raise SowlineError(
            "disk full",
            f"expected room in {tempfile.gettempdir()} for the topic's largest partition, up to three times: {full}. "
            "Name another directory in TMPDIR",
        ) from full
    except NoDescriptors as error:
        raise SowlineError(
            "no descriptors", f"expected more descriptors: {error}. Raise the limit (ulimit -n)"
        ) from error
    except StoreDamaged as damage:
        raise SowlineError(
            "state damaged",
            f"{damage}. The next worker that opens it rebuilds it: from the changes, or the log",
        ) from damage


def _on_topic(command: Command) -> Command:
    for option in (
        click.option("--data-dir", type=PATH, help="Where the materializer keeps state (SOWLINE_DATA_DIR)."),
        click.option("--config", type=PATH, help="The file of topics (SOWLINE_CONFIG)."),
        click.option("--kafka", "-k", help="Kafka's bootstrap servers (SOWLINE_KAFKA)."),
    ):
        command = option(command)
    return click.argument("topic")(command)


_partition = click.option("--partition", type=click.IntRange(0), help="Only this partition.")


@cli_command(examples=("sowline dump orders --partition 0 | jq .",))
@_on_topic
@_partition
@click.option(
    "--from",
    "source",
    type=click.Choice(["store", "changes", "log"]),
    default="store",
    show_default=True,
    help="The local state, the changes topic, or the log, applied offline.",
)
def dump(topic: str, partition: int | None, source: str, **where: Any) -> None:
    """Print the state of TOPIC, one line of JSON each: a head for each partition, then its records by SOW key.

    Services may keep running. All three sources print the same once they have reached the same position.
    """
    output = Output(sys.stdout.fileno())
    with operating(topic, **where) as operated:
        for offline in operated.asides(partition):
            copy = _copied(offline, source, operated.path(offline.partition))
            for line in dump_lines(operated.definition, offline.partition, copy):
                output.put(line)
            output.write()


def _copied(offline: OfflineCopies, source: str, path: Path) -> OfflineCopy:
    if source == "store":
        return require_store(offline, path)
    extent = offline.extent()
    if source == "changes":
        return offline.from_changes(extent)
    known = extent.changes_start < extent.changes_end
    of = (
        offline.from_changes(extent).checkpoint
        if known
        else Checkpoint(log_id=extent.log_id, limits=offline.definition.limits)
    )
    return offline.lead_on(offline.from_log(extent, of), of.position._replace(offset=extent.log_end - 1))


def require_store(offline: OfflineCopies, path: Path) -> OfflineCopy:
    """Return the local state, or raise with the other sources."""
    copy = offline.from_store(path)
    if copy is None:
        raise SowlineError(
            "state missing",
            f"expected the state of {offline.name} in {path}, found none: another machine has it. Give its "
            "--data-dir, or take it --from changes",
        )
    return copy


@cli_command(examples=("sowline verify orders",))
@_on_topic
@_partition
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each partition.")
def verify(topic: str, partition: int | None, as_json: bool, **where: Any) -> None:
    """Check the state of TOPIC: apply the log offline, and compare the result with the changes and the local state.

    A view is also computed again from the records of its source. Services may run meanwhile. Exits with 1 if anything
    differs, or nothing could be compared.
    """
    equal = True
    with operating(topic, **where) as operated:
        for offline in operated.asides(partition):
            verdict = verify_partition(offline, operated.path(offline.partition), operated.source_copies)
            equal = equal and verdict.equal
            lines = [orjson.dumps(verdict.fields()).decode()] if as_json else sentences(verdict)
            click.echo("\n".join(lines))
    sys.exit(not equal)


@cli_command(examples=("sowline backup orders orders-backup",))
@_on_topic
@click.argument("directory", type=PATH)
def backup(topic: str, directory: Path, **where: Any) -> None:
    """Write the state of TOPIC into a new DIRECTORY; needs only Kafka, and all services may keep running.

    Prints a line of JSON: how many records it has, and the position of each partition.
    """
    with operating(topic, **where) as operated:
        made = back_up(operated.definition, operated.asides(), directory)
    click.echo(orjson.dumps(made.summary))


@cli_command(examples=("sowline restore orders orders-backup",))
@_on_topic
@click.argument("directory", type=PATH)
def restore(topic: str, directory: Path, **where: Any) -> None:
    """Write the backup in DIRECTORY into the empty changes topic of TOPIC; no materializer may run.

    Materializers and replicas load it when they start. Prints a line of JSON as backup does.
    """
    with operating(topic, **where) as operated:
        found, settings = open_backup(directory), operated.settings
        restored = restore_backup(
            settings.kafka_client, group_of(settings), operated.definition, found, operated.asides()
        )
    click.echo(orjson.dumps(restored.summary | {"topic": topic}))


@cli_command(examples=("sowline rebuild orders",))
@_on_topic
@click.option("--accept-loss", is_flag=True, help="Rebuild from the rest of the log if some of it is gone.")
def rebuild(topic: str, accept_loss: bool, **where: Any) -> None:
    """Let the state of TOPIC be rebuilt from the beginning of the log, after a change of its definition.

    No materializer may run meanwhile; those that start then apply the log. Prints a line of JSON.
    """
    with operating(topic, **where) as operated:
        settings = operated.settings
        group, loss = group_of(settings), accept_loss or settings.accept_loss
        # It needs all copies at once: it plans every partition before it writes to one.
        result = rebuild_state(
            settings.kafka_client, group, operated.definition, operated.asides(keep=True), loss
        )
    click.echo(orjson.dumps(result))


@click.group(cls=CliGroup, context_settings=CONTEXT)
def operate() -> None:
    """Commands on the state of a topic."""


for command in (dump, verify, backup, restore, rebuild):
    operate.add_command(command)
