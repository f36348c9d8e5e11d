"""A system with topics to query: some records, mixed values, and more than buffers hold."""

from typing import Any

from sowline.model.key import sow_key
from tests.integration.services import Service, System
from tests.integration.wire import Json

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
