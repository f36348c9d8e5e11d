"""A system with topics to query: some records, mixed values, and more than buffers hold."""

import json
import urllib.request
from typing import Any

from sowline.model.key import sow_key
from tests.integration.services import Service, System
from tests.integration.wire import Json

ANSWER_SECONDS_MAX = 5.0

RECORDS = 10_000
"""In the topic `long`: more than the buffers between a service and a client that does not read can hold."""

BACKLOG_BYTES = 64 * 1024

LIMITS = {
    "result_records_max": 1500,
    "result_bytes_max": 250_000,
    "query_seconds_max": 0.3,
    "index_bytes_max": 0,
}

ORDERS: list[Json] = [
    {
        "id": number,
        "qty": number * 10,
        "region": ("north", "south")[number % 2],
        "kind": "abc"[number % 3],
        "more": {"level": number % 4, "text": f"é{number}"},
    }
    for number in range(12)
]

MIXED: list[Any] = [10, 2, "b", "a", None, "10", 1.5, True]
"""The field `v` of the record whose id is the index in the list."""

REFUSED: list[tuple[Json, str]] = [
    ({"order_by": "qty"}, "invalid order by"),
    ({"order_by": "/qty UP"}, "invalid order by"),
    ({"top_n": -1}, "invalid top_n"),
    ({"skip_n": 1}, "invalid skip_n"),
    ({"top_n": 1, "skip_n": -1}, "invalid skip_n"),
    ({"top_n": "1"}, "bad request"),
    ({"sow_keys": [1]}, "bad request"),
    ({"sow_keys": ["1"] * 100_001}, "too many keys"),
    ({"options": "select=[id]"}, "invalid options"),
    ({"options": "grouping=[/a]"}, "invalid options"),
    ({"topic": "^("}, "bad regex topic"),
    ({"topic": "^nothing"}, "invalid topic"),
    ({"filter": r"/a LIKE '(.)\1'"}, "bad filter"),
    ({"filter": "/a LIKE '(a{1000}){1000}'"}, "bad filter"),
    ({"bookmark": "epoch"}, "invalid bookmark"),
]
"""What can not be asked for, and with which reason."""

EXPLAINED: list[tuple[Json, Json]] = [
    (
        {"sow_keys": [1, 2, 99], "filter": "/qty > 10"},
        {"access_path": "sow keys", "records": 2, "candidates": 2, "read": 2, "matches": 1},
    ),
    (
        {"filter": "/id IN ('3', '4', '99') AND /qty = 30"},
        {"access_path": "key", "index": "/id", "candidates": 2, "read": 2, "matches": 1},
    ),
    (
        {"filter": "/region = 'north' AND /kind = 'a'"},
        {"access_path": "hash index", "index": "/region,/kind", "candidates": 2, "read": 2, "matches": 2},
    ),
    (
        {"filter": "/qty > 50"},
        {"access_path": "memo index", "index": "/qty", "indexed": "/qty > 50", "read": 0, "matches": 6},
    ),
    (
        {"filter": "/more/level = 3 AND MESSAGE_SIZE() > 10"},
        {"access_path": "memo index", "index": "/more/level", "candidates": 3, "read": 3, "matches": 3},
    ),
    (
        {"filter": "MESSAGE_SIZE() > 10"},
        {"access_path": "scan", "candidates": 12, "read": 12, "matches": 12},
    ),
]
"""Queries, and the answers of `explain`."""


class Served:
    """A system, its query service, and another one over the same topics that may do little."""

    def __init__(self, made: System, names: dict[str, str], query: Service, limited: Service) -> None:
        self.system = made
        self.names = names
        self.query = query
        self.limited = limited

    def write(self, name: str, *records: Json) -> None:
        """Publish records to a topic and wait until the query service has them."""
        self.system.write(self.names[name], *records)
        self.system.wait_settled(self.query.url, self.names[name])

    def key(self, name: str, id: object) -> str:
        """Return a record's SOW key."""
        return sow_key(self.system.topic(self.names[name]).declared.domain_prefix, str(id)).decode()


def bodies(messages: list[Json]) -> list[Json]:
    """Return the records of a group, in their order."""
    return [record["data"] for message in messages[1:-1] for record in message["records"]]


def ids(messages: list[Json]) -> list[int]:
    """Return the ids of the records of a group, in their order."""
    return [body["id"] for body in bodies(messages)]


def counts(stats: Json) -> list[int]:
    """Return what there was, what of it matched, and what of that was returned."""
    return [stats[name] for name in ("topic_matches", "matches", "records_returned")]


def explained_over_http(service: Service, topic: str, fields: Json) -> list[Json]:
    """Return the access paths that a service names over HTTP."""
    url = f"{service.url}/v1/topics/{topic}/explain"
    with urllib.request.urlopen(url, json.dumps(fields).encode(), timeout=ANSWER_SECONDS_MAX) as answer:
        access_paths: list[Json] = json.loads(answer.read())["access_paths"]
        return access_paths
