"""Those who write to the log: good commands, repeats, nonsense, and some in the wrong partition."""

import json
from random import Random

from sowline.commands.command import Headers, joined_keys
from sowline.config.topic_definition import TopicDefinition
from sowline.model.key import partition_of
from tests.property.document_model import DELTAS
from tests.property.keys import HOSTILE
from tests.property.model import FILTERS, Body
from tests.simulation.broker import Broker

TAGS = (b"t", b"t", b"t", b"u", b"u", b"u", b"t,u", b"t,u", b" u , t ", b"t," + b"x" * 101)
FAR_OFFSETS = (0, 3, 99_999_999_999)
"""Offsets of another log: as low as those of this one, and far beyond."""

KEYS = ("a", "b", "c", "d", "e", "f", "1", "2")


class Publishers:
    """Some producers of every kind."""

    def __init__(self, chance: Random, definition: TopicDefinition, broker: Broker) -> None:
        self._chance = chance
        self._keys = KEYS if definition.key_paths else chance.sample(HOSTILE, len(KEYS))
        self._definition = definition
        self._broker = broker
        self._sequences = {"P": 0, "Q": 0}
        self._last: list[tuple[int, bytes | None, bytes | None, Headers]] = []

    def publish(self, count: int) -> None:
        """Write some commands."""
        for _ in range(count):
            self._write(*self._command())

    def mirror(self, count: int) -> None:
        """Write commands that say of themselves that they are copies of another log's records, as a mirror does."""
        for _ in range(count):
            partition, key, value, headers = self._command()
            log_id, offset = self._chance.choice(("mirrored", "orders-1")), self._chance.choice(FAR_OFFSETS)
            of = self._chance.randrange(self._definition.partitions)
            self._write(partition, key, value, [*headers, ("sow.origin", f"{log_id}:{of}@{offset}".encode())])

    def touch(self, partition: int) -> None:
        """Write a good command that belongs to a partition, and what is refused to the same."""
        key = next(
            str(n) for n in range(1000) if partition_of(str(n), self._definition.partitions) == partition
        )
        kafka_key = None if self._definition.key_paths else key.encode()
        self._write(partition, kafka_key, json.dumps({"id": key, "q": 7, "r": "n"}).encode(), [])

    def _write(self, partition: int, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        self._broker.append((self._definition.log, partition), key, value, headers)

    def _command(self) -> tuple[int, bytes | None, bytes | None, Headers]:
        chance = self._chance
        if self._last and chance.random() < 0.08:
            return chance.choice(self._last)
        id = chance.choice(self._keys)
        partition = partition_of(id, self._definition.partitions)
        if chance.random() < 0.15:
            partition = chance.randrange(self._definition.partitions)
        key, value, headers = self._content(id)
        if chance.random() < 0.25 and not any(name == "sow.publisher" for name, _ in headers):
            headers = headers + self._number()
        if value is not None and not headers and chance.random() < 0.15:
            seconds = chance.choice((b"0", b"0.5", b"2", b"30"))
            headers = [("sow.expiration", seconds)]
        command = partition, key, value, headers
        self._last = [*self._last[-8:], command]
        return command

    def _number(self) -> Headers:
        name = self._chance.choice(sorted(self._sequences))
        self._sequences[name] += 1
        back = self._chance.choice((0, 0, 0, 1, 3))
        number = max(0, self._sequences[name] - back)
        return [("sow.publisher", name.encode()), ("sow.sequence", b"%d" % number)]

    def _content(self, id: str) -> tuple[bytes | None, bytes | None, Headers]:
        chance, kind = self._chance, self._chance.random()
        key = id.encode()
        if kind < 0.5:
            return key, self._body(id, whole=True), []
        if kind < 0.72:
            return key, self._body(id, whole=False), [("sow.command", b"delta_publish")]
        if kind < 0.78:
            return key, None, []
        if kind < 0.82:
            return key, json.dumps({"id": id}).encode(), [("sow.command", b"sow_delete")]
        if kind < 0.88:
            filter = chance.choice(sorted(FILTERS)).encode()
            return None, None, [("sow.command", b"sow_delete"), ("sow.filter", filter)]
        if kind < 0.92:
            ids = chance.sample(self._keys, 3)
            keys = joined_keys([self._definition.key_rule.sow_key(each).decode() for each in ids])
            return None, None, [("sow.command", b"sow_delete"), ("sow.keys", keys.encode())]
        others: tuple[tuple[bytes | None, bytes | None, Headers], ...] = (
            (key, b"{not json", []),
            (key, b"[1]", []),
            (None, b'{"q":1}', []),
            (None, b'{"id":null}', []),
            (key, b'{"id":"a"}', [("sow.unknown", b"x")]),
            (None, None, []),
        )
        return chance.choice(others)

    def _body(self, id: str, *, whole: bool) -> bytes:
        chance = self._chance
        body: Body = {"id": id}
        if whole or chance.random() < 0.6:
            body["q"] = chance.randint(0, 9)
        if chance.random() < 0.4:
            body["r"] = chance.choice(("n", "m"))
        if chance.random() < 0.3:
            body["more"] = {chance.choice("ab"): chance.randint(0, 2)}
        return json.dumps(body, separators=(",", ":")).encode()


class DocumentPublishers(Publishers):
    """Producers that write to documents: deltas too, and tags, ids and lifetimes with any command."""

    def _content(self, id: str) -> tuple[bytes | None, bytes | None, Headers]:
        chance = self._chance
        content: tuple[bytes | None, bytes | None, Headers]
        if chance.random() < 0.6:
            key = None if chance.random() < 0.03 else id.encode()
            content = key, chance.choice(list(DELTAS)).encode(), [("sow.command", b"delta")]
        else:
            content = super()._content(id)
        key, value, headers = content
        return key, value, headers + self._more()

    def _more(self) -> Headers:
        chance = self._chance
        more = {
            "sow.tags": (0.3, TAGS),
            "sow.change_id": (0.1, (b"first", b"second", b"7f1c2a52-4b7e-11ef-9a3d-0242ac120002")),
            "sow.expiration": (0.1, (b"0", b"0.5", b"2", b"30")),
        }
        return [
            (name, chance.choice(some)) for name, (share, some) in more.items() if chance.random() < share
        ]
