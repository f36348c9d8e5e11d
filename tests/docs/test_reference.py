"""The reference pages name everything that the code has: they can't lag behind."""

import re
from pathlib import Path

import pytest

from sowline.cli import main
from sowline.settings import Settings
from sowline.topics import FanoutDefinition, TopicDefinition
from sowline.wire import COMMANDS, Request

ROOT = Path(__file__).parents[2]
ROOMS = ("sowline", "ingest", "materializer", "query_service", "fanout", "deploy")
SOURCES = "".join(path.read_text() for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))


def page(name: str) -> str:
    """Return the text of a page of the documentation."""
    return (ROOT / "docs" / name).read_text()


def reasons() -> set[str]:
    """Return every reason code that the code raises as a literal."""
    direct = re.findall(r'SowlineError\(\s*"([a-z_ ]+)"', SOURCES)
    by_super = re.findall(r'super\(\).__init__\(\s*"([a-z_ ]+)"', SOURCES)
    return {*direct, *by_super}


def test_every_reason_code_is_on_the_list() -> None:
    """A client can look up any reason it is given."""
    listed = re.findall(r"`([a-z_ ]+)`", page("wire.md").split("## Reason codes")[1])
    assert reasons() <= set(listed)


def test_every_metric_is_described() -> None:
    """An operator can look up any metric that a service has."""
    families = re.findall(r'(?:MetricFamily|_by)\(\s*"(sowline_\w+)"', SOURCES)
    assert len(families) > 10
    described = page("metrics.md")
    assert [
        name for name in families if f"`{name}`" not in described and f"`{name}_total`" not in described
    ] == []


@pytest.mark.parametrize("field", Settings.model_fields)
def test_every_setting_is_described(field: str) -> None:
    """A setting is on the page with its default and its meaning."""
    about = Settings.model_fields[field]
    default = "" if about.default_factory or about.default == "" else f"`{about.default}`"
    assert f"| `SOWLINE_{field.upper()}` | {default} | {about.description} |" in page("settings.md")


@pytest.mark.parametrize("field", [*TopicDefinition.model_fields, *FanoutDefinition.model_fields])
def test_every_field_of_a_topic_is_described(field: str) -> None:
    """A field of topics.yaml is on the page."""
    assert f"| `{field}` |" in page("topics.md")


@pytest.mark.parametrize("word", [*COMMANDS, *Request.__struct_fields__])
def test_every_command_and_field_of_a_request_is_described(word: str) -> None:
    """What a client may send is on the page."""
    assert f"`{word}`" in page("wire.md")


@pytest.mark.parametrize("name", sorted(main.commands))
def test_every_command_is_described(name: str) -> None:
    """A command of the command line is on the page."""
    assert f"`sowline {name}" in page("client.md")


def test_links_between_pages_lead_somewhere() -> None:
    """No page of the documentation points to a file that is not there."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    links = [
        (page, link)
        for page in pages
        for link in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text())
        if "://" not in link
    ]
    assert [(page.name, link) for page, link in links if not (page.parent / link).exists()] == []
