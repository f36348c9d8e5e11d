"""The reference pages name everything that the code has: they can't lag behind."""

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
from pydantic import BaseModel

from sowline.cli import main
from sowline.cli.top.table import SORTS, PartitionRow, ServiceRow, TopicRow
from sowline.config.declared_topic import DeclaredTopic
from sowline.config.fanouts import FanoutDefinition
from sowline.config.settings import Settings
from sowline.config.views import ConflatedDefinition, Join, ViewDefinition
from sowline.subscriptions.ask import Reading
from sowline.wire.client_message import Message
from sowline.wire.options import Options
from sowline.wire.request_fields import COMMANDS, RequestFields
from sowline_ingest.__main__ import main as pipeline
from sowline_ingest.definition import Check, LookupTable, Pipeline, Source, TransformStep
from sowline_query_service.index import access_path
from sowline_query_service.topics.state import ServedTopics
from tests.docs.pages import text_of, tracked
from tests.unit.query_service.sessions import Server

ROOT = Path(__file__).parents[2]
PACKAGES = ("sowline", "ingest", "materializer", "query_service", "gateway", "fanout", "views")
SOURCES = "".join(path.read_text() for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")))


def page(name: str) -> str:
    """Return the text of a page of the documentation."""
    return text_of(f"docs/{name}")


def test_the_readme_explains_each_directory() -> None:
    """And the files beside them, but for pages and what tools read behind the scenes."""
    _, contents = text_of("README.md").split("## The repository")
    top = {path.split("/")[0] + ("/" if "/" in path else "") for path in tracked()}
    visible = {name for name in top if not name.startswith(".") and not name.endswith(".md")} - {"LICENSE"}
    rows = [line.split("|")[1] for line in contents.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(.+?)`", row)} == visible


def test_every_finding_is_on_the_list() -> None:
    """Anyone who is told a code by the doctor can look it up."""
    text = "".join(path.read_text() for path in sorted((ROOT / "sowline" / "cli" / "doctor").glob("*.py")))
    codes = {*re.findall(r'Finding\(\s*"([a-z_]+)"', text), *re.findall(r': \(\s*"([a-z_]+)",\s*"', text)}
    assert {"kafka_away", "tombstones", "service_unready", "service_behind"} <= codes
    listed = page("operate.md").split("## Finding what is wrong")[1].split("\n## ")[0]
    assert [code for code in sorted(codes) if f"`{code}`" not in listed] == []


def test_what_top_shows_is_described() -> None:
    """The fields of its lines of JSON, what topics can be ordered by, and its options are on the page."""
    listed = page("operate.md").split("## Watching services")[1].split("\n## ")[0]
    rows = [field.name for row in (TopicRow, PartitionRow, ServiceRow) for field in fields(row)]
    named = [option for of in main.commands["top"].params for option in of.opts if option.startswith("--")]
    assert [name for name in (*rows, *SORTS) if f"`{name}`" not in listed] == []
    assert [option for option in named if option not in listed] == []


@pytest.mark.parametrize("field", Settings.model_fields)
def test_every_setting_is_described(field: str) -> None:
    """A setting is on the page with its default and its meaning."""
    about = Settings.model_fields[field]
    default = "" if about.default_factory or about.default == "" else f"`{about.default}`"
    assert f"| `SOWLINE_{field.upper()}` | {default} | {about.description} |" in page("settings.md")


@pytest.mark.parametrize("model", [DeclaredTopic, FanoutDefinition])
def test_every_field_of_a_topic_is_described(model: type[BaseModel]) -> None:
    """A field of topics.yaml is on the page, by the name that it has there."""
    names = [about.alias or field for field, about in model.model_fields.items()]
    assert [name for name in names if f"| `{name}` |" not in page("topics.md")] == []


@pytest.mark.parametrize("model", [ViewDefinition, Join, ConflatedDefinition])
def test_every_field_of_a_view_is_described(model: type[BaseModel]) -> None:
    """A field of a view, a join or a conflated topic is on the page, by the name that it has there."""
    names = [about.alias or field for field, about in model.model_fields.items()]
    assert [name for name in names if f"| `{name}` |" not in page("views.md")] == []


@pytest.mark.parametrize("model", [Pipeline, Source, LookupTable, TransformStep, Check])
def test_every_field_of_a_pipeline_is_described(model: type[BaseModel]) -> None:
    """A field of a pipeline's file is on the page, by the name that it has there."""
    names = [about.alias or field for field, about in model.model_fields.items()]
    assert [name for name in names if f"| `{name}` |" not in page("pipeline-file.md")] == []


def test_every_way_to_look_at_a_pipeline_is_described() -> None:
    """The options of `sowline pipeline validate` are on the page of the file."""
    named = [option for of in pipeline.commands["validate"].params for option in of.opts if option[0] == "-"]
    assert named
    rows = [line for line in page("pipeline-file.md").splitlines() if line.startswith("| `-")]
    assert [option for option in named if not any(f"`{option}`" in row.split("|")[1] for row in rows)] == []


@pytest.mark.parametrize("word", [*COMMANDS, *RequestFields.__struct_fields__])
def test_every_command_and_field_of_a_request_is_described(word: str) -> None:
    """What a client may send is on the page."""
    assert f"`{word}`" in page("api.md")


@pytest.mark.parametrize("option", [field.name for field in fields(Options)])
def test_every_option_is_described(option: str) -> None:
    """An option of a command is on the page."""
    assert re.search(rf"^\| [^|]*`{option}[`=]", page("api.md"), re.MULTILINE)


def names_in(message: Any) -> Iterator[str]:
    """Yield the names of all fields of a message, but for those of bodies."""
    if isinstance(message, list):
        for part in message:
            yield from names_in(part)
    elif isinstance(message, dict):
        for name, value in message.items():
            yield name
            if name != "data":
                yield from names_in(value)


async def test_every_field_of_a_message_is_on_the_page() -> None:
    """Of what queries, explain, subscriptions, pages and groups answer, and of failures."""
    server = Server(more=", hash_indexes: [[/g]]")
    server.state = ServedTopics(server.topics, 1000, index_bytes_max=0)
    server.state.listen(server.dispatcher.on_changes)
    server.loaded()
    client = server.connect()
    every = "received,processed,completed,stats"
    groups = "oof,timestamp,grouping=[/g],projection=[/g,COUNT(1) AS /n]"
    server.put({"id": 1, "g": "a", "n": 1})
    client.ask("sow", options="timestamp", ack_type=every)
    client.ask("sow", filter="nonsense")
    client.ask("explain", filter="/n > 0", query_id="e1")
    client.ask("explain", filter="/g = 'a'", query_id="e2")
    client.ask("sow_and_subscribe", options=groups, sub_id="groups", ack_type=every)
    client.ask("sow_and_subscribe", options="oof", top_n=1, skip_n=0, sub_id="page", ack_type=every)
    messages = await client.read()
    server.put({"id": 1, "g": "b", "n": 1})
    server.put(None, key=1)
    messages += await client.read()
    assert {"note", "index", "more", "topic_matches", "sids"} <= (names := set(names_in(messages)))
    text = page("api.md")
    assert [name for name in sorted(names) if f"`{name}`" not in text and f'"{name}"' not in text] == []


def test_every_access_path_is_described() -> None:
    """Anyone who reads `explain` can look up the access path on the page that says when it is taken."""
    names = [
        access_path.KEYS,
        access_path.KEY,
        access_path.HASH_INDEX,
        access_path.MEMO_INDEX,
        access_path.SCAN,
        access_path.HISTORY,
    ]
    assert [name for name in names if f"| `{name}` |" not in page("queries.md")] == []
    assert [name for name in names if f"`{name}`" not in page("api.md")] == []


@pytest.mark.parametrize("name", [*Reading.__annotations__, *Message.__struct_fields__, "data"])
def test_every_argument_and_attribute_of_the_client_is_described(name: str) -> None:
    """What a caller may ask for, and what a message has, is on the page."""
    assert re.search(rf"^\| [^|]*`{name}`[^|]* \|", page("client.md"), re.MULTILINE)


@pytest.mark.parametrize("command", ["sow", "explain", "timeline", "types", "subscribe", "sow-and-subscribe"])
def test_every_option_of_a_reading_command_is_described(command: str) -> None:
    """Long or short, it is on the page."""
    named = [option for of in main.commands[command].params for option in of.opts if option.startswith("-")]
    assert len(named) > 5
    assert [option for option in named if f"`{option}`" not in page("client.md")] == []


def options_of(command: click.Command) -> set[str]:
    """Return the options of a command and of those below it, by their long names."""
    below = command.commands.values() if isinstance(command, click.Group) else ()
    own = {option for of in command.params for option in (*of.opts, *of.secondary_opts)}
    return {option for option in own if option.startswith("--")}.union(*map(options_of, below))


@pytest.mark.parametrize("name", sorted(main.commands))
def test_every_option_of_a_command_is_described(name: str) -> None:
    """A reader of a script finds on a page what `--host` in it means."""
    pages = "".join(text_of(path) for path in tracked() if re.fullmatch(r"docs/[^/]+\.md", path))
    described = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", pages))
    assert sorted(options_of(main.commands[name]) - described - {"--help"}) == []


@pytest.mark.parametrize("name", ["materializer", "query-service", "gateway", "views", "fanout"])
def test_every_option_of_a_service_is_described(name: str) -> None:
    """With the command, on its page."""
    (row,) = [line for line in page("client.md").splitlines() if line.startswith("| `sowline materializer`")]
    assert [option for option in sorted(options_of(main.commands[name])) if f"`{option}`" not in row] == []


@pytest.mark.parametrize("name", sorted(main.commands))
def test_every_command_is_described(name: str) -> None:
    """A command of the command line is on the page."""
    assert f"`sowline {name}" in page("client.md")
