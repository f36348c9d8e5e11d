"""One topic with its records and their indexes."""

import json
from typing import Any

from sowline.config.topics import parse_topics
from sowline.language.expressions.order import Order
from sowline.language.filter import compile_filter
from sowline.model.key import sow_key
from sowline.model.position import Position
from sowline_query_service.index.budget import Memory
from sowline_query_service.index.rows import Rows
from sowline_query_service.topics.topic_indexes import Indexes

COLUMN = 12_000
"""Bytes of one memo index of few records, and not of two."""

UNSORTED = Order()
A = compile_filter("/a = 1")


class Topic:
    """Rows, their indexes, and what records there are."""

    def __init__(self, more: str = "", bytes_max: int = 1 << 30) -> None:
        definition = parse_topics(f"topics: [{{name: t, key: /id{more}}}]").topics[0]
        self.rows = Rows()
        self.memory = Memory(bytes_max)
        self.indexes = Indexes(definition, self.rows, self.memory)
        self.bodies: dict[int, dict[str, Any]] = {}

    def put(self, number: int, **fields: Any) -> None:
        """Put a record."""
        self.bodies[number] = {"id": number} | fields
        body = json.dumps(self.bodies[number]).encode()
        self.rows.put(sow_key(b"t\0", str(number)), body, 0, Position(0, 0), 0)

    def remove(self, number: int) -> None:
        """End a record."""
        del self.bodies[number]
        self.rows.remove(sow_key(b"t\0", str(number)))

    def found(self, text: str) -> list[int]:
        """Follow the access path and return the ids of the records that match."""
        access_path = self.indexes.access_path(compile_filter(text), ())
        rows = access_path.decided.tolist()
        for some, filter in access_path.checks:
            rows += [row for row in some.tolist() if filter.matches(self._read(row))]
        assert len(rows) == len(set(rows))
        return sorted(self._read(row)["id"] for row in rows)

    def expected(self, text: str) -> list[int]:
        """Return the same by a look at every record."""
        return sorted(n for n, body in self.bodies.items() if compile_filter(text).matches(body))

    def _read(self, row: int) -> dict[str, Any]:
        body = self.rows.bodies[row]
        assert body is not None
        document: dict[str, Any] = json.loads(body)
        return document


def free(seconds: float) -> None:
    """Work that nobody counts."""


def filled(count: int, more: str = "", bytes_max: int = 1 << 30) -> Topic:
    """Return a topic of so many records."""
    topic = Topic(more, bytes_max)
    for number in range(count):
        topic.put(number, a=number % 3, b=str(number % 5))
    return topic
