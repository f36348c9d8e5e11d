"""A server of documents, and what tests compare of its answers."""

from collections.abc import Iterator

import orjson
import pytest

from sowline.serving.authorization.entitlements import Entitlement
from sowline_query_service.query.record_reads import read_record
from tests.unit.documents import Documents
from tests.unit.query_service.sessions import Json, Server


@pytest.fixture
def server() -> Iterator[Documents]:
    """A server of documents, empty."""
    server = Documents()
    with server.patched():
        yield server


def received(messages: list[Json]) -> list[tuple[str, Json]]:
    """Return of each live message its command and its body."""
    return [(m["command"], m["data"]) for m in messages if m["command"] in ("publish", "oof")]


def shown(messages: list[Json]) -> list[Json]:
    """Return the bodies of a group."""
    return [record["data"] for m in messages if m["command"] == "sow" for record in m["records"]]


def tagged(tag: str) -> str:
    """Return the condition of documents whose last write has a tag."""
    return f'{{..,"~tags":contains("{tag}")}}'


def record(server: Server, key: str) -> Json:
    """Return what is read of one document."""
    found: Json = orjson.loads(read_record(server.topic, key, Entitlement("^.*")))
    return found
