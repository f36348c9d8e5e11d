"""Publishers that write at random and subscribers that write down what they are sent, to compare with the model."""

import asyncio
import os
import random
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Self

from sowline.client.async_client import AsyncClient
from sowline.client.stream import Stream
from sowline.model.key import partition_of
from sowline.subscriptions.ask import Ask
from sowline.wire.client_message import Message
from tests.integration.changes import check_chain, check_compacted, read_changes
from tests.integration.model import FILTERS, Body, Model, Position, Sent, group_hash
from tests.integration.positions import positions_of
from tests.integration.services import System
from tests.waiting import SECONDS_MAX, wait_for

KEYS = 60
COMMANDS_MAX = 20_000
"""Commands after which a publisher waits to be stopped, however slow the machine is."""

MARK: Body = {"region": "north", "qty": 60, "more": {"level": 2}}
"""The rest of a record that every filter matches."""
SELECTIONS = [filter for filter, test in FILTERS.items() if test(MARK)]


def new_seed() -> int:
    """Return the seed of this run: SOWLINE_SEED, or a new one, which is printed."""
    seed = int(os.environ.get("SOWLINE_SEED") or random.SystemRandom().randrange(2**32))
    print(f"SOWLINE_SEED={seed}")
    return seed


class Publishers:
    """Threads that write commands of every kind until they are stopped."""

    def __init__(self, system: System, topic: str, seed: int, count: int = 3) -> None:
        self._system = system
        self._topic = topic
        self._model = Model(system.topic(topic))
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self.written = 0
        self._threads = [
            threading.Thread(target=self._run, args=(random.Random(seed + number),))
            for number in range(count)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        self.stop()

    def wait_written(self, count: int) -> None:
        """Wait until so many more commands are written, or until the last one is."""
        goal = min(self.written + count, len(self._threads) * COMMANDS_MAX)
        wait_for(lambda: self.written >= goal or self._errors, f"{count} more commands to be written")

    def stop(self) -> None:
        """Stop writing; all that was written is with Kafka."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        assert not self._errors, self._errors

    def _run(self, dice: random.Random) -> None:
        try:
            publisher = self._system.publisher()
            for _ in range(COMMANDS_MAX):
                if self._stop.is_set():
                    break
                self._write(publisher, dice)
                self.written += 1
                if dice.random() < 0.3:
                    publisher.flush()
            publisher.flush()
        except BaseException as error:
            self._errors.append(error)

    def _write(self, publisher: object, dice: random.Random) -> None:
        key = {"id": dice.randrange(KEYS)}
        kind = dice.random()
        body = key | {"region": dice.choice(("north", "south", "east")), "qty": dice.randrange(100)}
        if kind < 0.45:
            publisher.publish(self._topic, body | {"more": {"level": dice.randrange(4), "text": "é"}})  # type: ignore[attr-defined]
        elif kind < 0.85:
            delta = dice.choice(({"qty": dice.randrange(100)}, {"more": {"level": dice.randrange(4)}}, body))
            publisher.delta_publish(self._topic, key | delta)  # type: ignore[attr-defined]
        elif kind < 0.95:
            publisher.sow_delete(self._topic, data=key)  # type: ignore[attr-defined]
        elif kind < 0.98:
            chosen = [self._model.sow_key(str(dice.randrange(KEYS))) for _ in range(3)]
            publisher.sow_delete(self._topic, keys=chosen)  # type: ignore[attr-defined]
        else:
            publisher.sow_delete(self._topic, filter=dice.choice(("/qty = 13", "/qty > 50")))  # type: ignore[attr-defined]


@dataclass
class Life:
    """One subscription from its snapshot on, over all the connections it had, as its subscriber saw it."""

    filter: str
    oof: bool
    group: dict[str, Body] = field(default_factory=dict)
    group_end: Message | None = None
    messages: dict[int, list[Sent]] = field(default_factory=dict)
    view: dict[str, Body] = field(default_factory=dict)
    looks: list[tuple[str, dict[str, Body]]] = field(default_factory=list)
    """(bookmark, view) at the moments when the subscriber left."""
    bookmark: str | None = None

    def take(self, message: Message) -> None:
        """Write a message down."""
        if message.command == "group_begin":
            self.group, self.messages = {}, {}
        elif message.command == "sow":
            assert message.sow_key is not None
            assert message.sow_key not in self.group, "a record is in a group once"
            self.group[message.sow_key] = message.data
        elif message.command == "group_end":
            self.group_end = message
            self.view = dict(self.group)
        else:
            self._live(message)

    def _live(self, message: Message) -> None:
        assert message.sow_key is not None
        assert message.bookmark is not None
        ((partition, position),) = positions_of(message.bookmark).items()
        sent = Sent(position, message.command, message.sow_key, message.data, message.reason)
        self.messages.setdefault(partition, []).append(sent)
        if message.command == "oof":
            del self.view[message.sow_key]
        else:
            self.view[message.sow_key] = message.data

    def left(self, stream: Stream) -> None:
        """Note where the subscriber stands as it leaves."""
        if stream.bookmark is not None:
            self.bookmark = stream.bookmark
            self.looks.append((self.bookmark, dict(self.view)))

    def position(self, partition: int) -> Position:
        """Return the position of the last message from a partition."""
        return self.messages[partition][-1].position if self.messages.get(partition) else (-1, 0)

    def check(self, model: Model) -> None:
        """Compare with the model: the snapshot, every message after it, and every view at its bookmark."""
        assert self.group_end is not None
        assert self.group_end.bookmark is not None
        start = positions_of(self.group_end.bookmark)
        assert self.group == model.sow(self.filter, start)
        assert self.group_end.records == len(self.group)
        assert self.group_end.hash == group_hash(self.group)
        ends = {partition: self.position(partition) for partition in range(model.definition.partitions)}
        wanted = model.messages(self.filter, self.oof, start, ends)
        for partition, messages in wanted.items():
            assert_same(self.messages.get(partition, []), messages)
        for bookmark, view in self.looks:
            if self.oof:
                assert view == model.sow(self.filter, positions_of(bookmark))


def assert_same(found: list[Sent], wanted: list[Sent]) -> None:
    """Compare messages, and show only where they begin to differ."""
    pairs = enumerate(zip_longest(found, wanted))
    first = next((number for number, (one, other) in pairs if one != other), None)
    if first is not None:
        around = slice(max(0, first - 2), first + 3)
        raise AssertionError(f"from message {first} on: {found[around]}\nbut wanted: {wanted[around]}")


@asynccontextmanager
async def subscribed(
    client: AsyncClient, topic: str, life: Life, bookmark: str | None = None
) -> AsyncIterator[Stream]:
    """Lend a stream: from a snapshot on, or from a bookmark on."""
    options = "oof" if life.oof else ""
    if bookmark is None:
        ask = Ask("sow_and_subscribe", topic, life.filter, options)
    else:
        ask = Ask("subscribe", topic, life.filter, options, bookmark)
    stream = await client.open(ask)
    try:
        yield stream
    finally:
        life.left(stream)
        await client.end(stream)


async def read_until_marks(stream: Stream, life: Life, marks: Mapping[int, Position]) -> None:
    """Read on until the last record of every partition has come."""
    while any(life.position(partition) < mark for partition, mark in marks.items()):
        async with asyncio.timeout(SECONDS_MAX):
            messages = await stream.next_batch()
        assert messages, "the stream ended before the last records came"
        for message in messages:
            life.take(message)


def write_marks(system: System, url: str, topic: str) -> dict[int, Position]:
    """Write a last record that every filter matches to every partition; returns where they stand, once applied."""
    system.wait_settled(url, topic)
    wait_for(lambda: not model_of(system, topic).missing, "every forward to be on the log")
    partitions = system.topic(topic).partitions
    keys = {partition_of(f"last {n}", partitions): f"last {n}" for n in range(20 * partitions)}
    system.write(topic, *({"id": key, **MARK} for key in keys.values()))
    ends = system.wait_settled(url, topic)
    return {partition: (end - 1, 0) for partition, end in ends.items()}


def model_of(system: System, topic: str) -> Model:
    """Recompute a topic from its log as it is now."""
    definition = system.topic(topic)
    return Model.of(definition, system.read(definition.log))


async def check_sow(model: Model, url: str, topic: str) -> None:
    """Compare what queries return with the model."""
    async with AsyncClient(url) as client:
        for filter in SELECTIONS:
            found = [message async for message in client.sow(topic, filter=filter)]
            records = {message.sow_key: message.data for message in found if message.command == "sow"}
            assert records == model.sow(filter)


async def check_all(model: Model, system: System, url: str, topic: str) -> None:
    """Compare the SOW and the changes topic with the model."""
    await check_sow(model, url, topic)
    changes, _ = read_changes(system, topic)
    check_chain(changes, model)
    check_compacted(changes, model)
