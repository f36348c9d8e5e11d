"""Messages of a changes topic, as its owners, stale owners and owners that repair write them by chance."""

from collections.abc import Iterator
from random import Random
from typing import Any

from sowline.changes.change import AGAIN, DELETE, Change
from sowline.changes.progress import UNFILLED, Progress
from sowline.commands.command import Headers, Origin
from sowline.model.position import Position, before_the_log
from tests.property.world import written

TOPIC_ID = "this"
KEYS = [b"%d" % number for number in range(12)] + [b"", b"a b", "é".encode(), b"\0odd"]
CORRELATIONS = ["c1", "two words", 'q"', "é", "", "\x7f", "x" * 300]


class Message:
    """A message of the changes of `orders`, as Kafka's client returns it."""

    def __init__(
        self, partition: int, offset: int, key: bytes | None, value: bytes | None, headers: Headers | None
    ) -> None:
        self._fields = partition, offset, key, value, headers

    def topic(self) -> str:
        """Return the topic: a new text for each message."""
        return "".join(["orders", ".changes"])  # noqa: FLY002 - a literal would be one text

    def partition(self) -> int:
        """Return the partition."""
        return self._fields[0]

    def offset(self) -> int:
        """Return the offset."""
        return self._fields[1]

    def key(self) -> bytes | None:
        """Return the key."""
        return self._fields[2]

    def value(self) -> bytes | None:
        """Return the value."""
        return self._fields[3]

    def headers(self) -> Headers | None:
        """Return the headers."""
        return self._fields[4]


Sent = tuple[bytes | None, bytes | None, Headers | None]
"""A key, a value, and headers."""


class Writer:
    """Writes a partition's events by chance: those of its owner, of stale owners, and of owners that repair."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._held = before_the_log()
        self._time = 1000
        self._offset = chance.choice((0, 0, 0, 3))
        self._has_holes = chance.random() < 0.3

    def messages(self, partition: int, count: int) -> list[Message]:
        """Return about so many messages, and a progress event that proves that nothing is missing."""
        found: list[Message] = []
        writes = [self._plain, self._odd, self._deletes, self._progress, self._stale, self._again, self._era]
        weights = [
            self._chance.choice((1.0, 5.0, 60.0)),
            *(self._chance.choice((0, 1, 3)) for _ in writes[1:]),
        ]
        if self._chance.random() < 0.1:
            writes.append(self._far)
            weights.append(0.2)
        while len(found) < count:
            (write,) = self._chance.choices(writes, weights)
            found += [self._placed(partition, sent) for sent in write()]
        return [*found, self._placed(partition, self._sent(self._report(TOPIC_ID)))]

    def _placed(self, partition: int, sent: Sent) -> Message:
        message = Message(partition, self._offset, *sent)
        self._offset += self._chance.choice((1, 1, 1, 2)) if self._has_holes else 1
        return message

    @staticmethod
    def _sent(event: Change | Progress) -> Sent:
        _, name, body, headers, *_ = written(0, event)
        return name, body, headers

    def _change(self, position: Position, body: bytes | None = b"{}", **given: Any) -> Change:
        chance = self._chance
        after = self._held if chance.random() < 0.97 else self._old_position()
        fields: dict[str, Any] = {"sow_key": chance.choice(KEYS), "op": "publish", "time": self._time} | given
        if chance.random() < 0.1:
            fields |= {"time": self._time + 10 ** chance.randrange(4, 17), "log_time": self._time}
        elif chance.random() < 0.02:
            fields["time"] = 10 ** chance.randrange(14, 18)
        return Change(
            body=body, previous=chance.choice((None, b"{}")), position=position, after=after, **fields
        )

    def _next(self, nth: int = 0) -> Position:
        self._time += self._chance.randrange(-2, 30)
        era, offset, _ = self._held
        return Position(era, offset + self._chance.choice((1, 1, 1, 2)), nth)

    def _old_position(self) -> Position:
        era, offset, _ = self._held
        return Position(
            max(0, era - self._chance.randrange(2)), max(-1, offset + self._chance.randrange(-9, 4)), 0
        )

    def _plain(self) -> Iterator[Sent]:
        chance = self._chance
        for _ in range(chance.choice((1, 3, 30))):
            position = self._next()
            given: dict[str, Any] = {"op": chance.choice(("publish", "publish", "delta_publish"))}
            if chance.random() < 0.2:
                given["correlation"] = chance.choice(CORRELATIONS)
            if chance.random() < 0.2:
                given["numbers"] = {"p": (1, 0, 5)}
            if chance.random() < 0.1:
                given["expires"] = self._time + 5
            body = chance.choice((b"{}", b"", b'{"n":%d}' % position.offset))
            yield self._sent(self._change(position, body, **given))
            self._held = max(self._held, position)

    def _odd(self) -> Iterator[Sent]:
        """Messages that only Python reads, and a few that look like it."""
        chance, position = self._chance, self._next()
        key, body, headers = self._sent(self._change(position))
        about = headers[0] if headers else ("sow", b"")
        odd: list[Sent] = [
            (key, body, [about, ("traceparent", b"x")]),
            (key, body, [about, ("other", None)]),
            (key, body, [("sow", b"?"), about]),
            (key, body, [("sow.previous", None), about]),
            (None, body, [about]),
            (key, body, [(about[0], (about[1] or b"").replace(b"{", b"{ "))]),
            self._sent(self._change(position._replace(nth=2**31 - 1))),
            self._sent(self._change(position, origin=Origin(1, 5), outcome="deleted 1")),
            self._sent(self._change(position, None, op="expire", reason="expired", key_text="é")),
        ]
        yield chance.choice(odd)
        self._held = max(self._held, position)

    def _far(self) -> Iterator[Sent]:
        """The deletion of a record at a position that no column could hold."""
        yield self._sent(self._change(self._held._replace(offset=2**63 + 5), None, op=DELETE))

    def _deletes(self) -> Iterator[Sent]:
        """The changes of one log record, with what a stale owner writes in between."""
        chance, position = self._chance, self._next()
        count = chance.choice((1, 2, 5))
        for nth in range(count):
            position = position._replace(nth=nth)
            yield self._sent(self._change(position, None, op=DELETE, last=nth == count - 1))
            self._held = max(self._held, position)
            if chance.random() < 0.2:
                yield from self._stale()

    def _report(self, changes_id: str) -> Progress:
        position = self._held if self._chance.random() < 0.5 else self._next()
        after, self._held = self._held, max(self._held, position)
        return Progress(position, after, 0, {}, "digest", "log", self._time, {}, changes_id=changes_id)

    def _progress(self) -> Iterator[Sent]:
        chance = self._chance
        report = self._report(chance.choice(("", UNFILLED, TOPIC_ID, TOPIC_ID, "another")))
        yield self._sent(report._replace(is_catching_up=chance.random() < 0.2))

    def _stale(self) -> Iterator[Sent]:
        """Changes of an owner that does not know that it is none any more."""
        for _ in range(self._chance.choice((1, 1, 12))):
            body = self._chance.choice((b"{}", b'{"stale":1}', None))
            op = DELETE if body is None else "publish"
            yield self._sent(self._change(self._old_position(), body, op=op))

    def _again(self) -> Iterator[Sent]:
        """An event of a record, written again."""
        chance, position = self._chance, self._old_position()
        emitted_in = chance.choice((None, self._held.era, self._held.era + 1))
        if emitted_in is not None and emitted_in <= position.era:
            emitted_in = None
        yield self._sent(
            self._change(position, chance.choice((b"{}", None)), op=AGAIN, emitted_in=emitted_in)
        )

    def _era(self) -> Iterator[Sent]:
        self._held = Position(self._held.era + 1, self._chance.randrange(-1, 9))
        if self._chance.random() < 0.5:
            yield from self._progress()
