"""A query service and a gateway over shards, with writers, and clients that are compared after each step."""

import json
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from sowline.commands.command import Headers, joined_keys
from sowline.model.key import partition_of
from tests.property.answers import answer_of
from tests.property.asks import MINE, Ask
from tests.property.clock import ClockLoop
from tests.property.document_model import CONDITIONS
from tests.property.keys import kafka_keys
from tests.property.shard_asks import IDS, asks, records, whose, writes
from tests.property.shard_clients import Subscribed
from tests.property.shards import Reader, Shards
from tests.unit.query_service.sessions import Json


class ComparedServices(RuleBasedStateMachine):
    """Writers, time, and what all clients hold after each step; subclasses ask."""

    @initialize(
        kind=st.sampled_from(["fields", "fields", "kafka_key", "documents"]),
        more=st.sampled_from(["", ", history: {window: 1h, granularity: 0s}"]),
        partitions=st.integers(1, 5),
        shards=st.integers(1, 4),
        seed=st.integers(0, 1 << 16),
        ring=st.sampled_from([1000, 2]),
        keys=st.lists(kafka_keys, min_size=len(IDS), max_size=len(IDS), unique=True),
        first=st.lists(records, min_size=len(IDS), max_size=len(IDS)),
        asked=st.lists(asks, min_size=1, max_size=3),
        mine=whose,
        condition=st.sampled_from(list(CONDITIONS)),
    )
    def begin(
        self,
        kind: str,
        more: str,
        partitions: int,
        shards: int,
        seed: int,
        ring: int,
        keys: list[str],
        first: list[Json],
        asked: list[Ask],
        mine: str,
        condition: str,
    ) -> None:
        """Begin with some records and subscriptions; `asked` is what several clients ask for.

        Subscriptions to documents have the condition.
        """
        self.loop = ClockLoop()
        self.kind = kind
        self.key_of = dict(zip(IDS, keys if kind == "kafka_key" else map(str, IDS), strict=True))
        definition = {
            "fields": "key: /id",
            "kafka_key": "key: {from: kafka_key}",
            "documents": "key: /id, documents: true",
        }[kind]
        self.shards = Shards(self.loop, definition + more, partitions, shards, seed, ring)
        self.asked = [replace(ask, whose=mine) for ask in asked]
        self.more = {"condition": condition} if kind == "documents" and condition else {}
        self.subscribed: list[Subscribed] = []
        self.bookmarks: list[str] = []
        self.askers: dict[str, tuple[Reader, Reader]] = {}
        self.run(self._begin(first))

    async def _begin(self, first: list[Json]) -> None:
        await self.shards.start()
        self._write_all([("publish", number, body) for number, body in zip(IDS, first, strict=True)])
        await self.loop.rest()
        for ask in self.asked:
            await self._subscribe(ask)

    def run(self, step: Coroutine[Any, Any, None]) -> None:
        """Run something, and look at no more than that."""
        self.loop.run_until_complete(step)

    # writers

    def _write(self, command: str, number: int, what: Any) -> None:
        """Write a command."""
        self.shards.world.time += number % 2
        key = self.key_of[number]
        headers: Headers = []
        value: bytes | None = None
        match command:
            case "publish" | "delta_publish":
                headers = [("sow.command", command.encode()), ("sow.correlation", b"c%d" % number)]
                value = json.dumps({"id": number, **what}).encode()
            case "change" if self.kind == "documents":
                headers, value = [("sow.command", b"delta"), ("sow.tags", b"t")], what.encode()
            case "delete_filter":
                headers = [("sow.command", b"sow_delete"), ("sow.filter", what.encode())]
            case "delete_keys":
                named = [self._sow_key(one) for one in {number, *what}]
                headers = [("sow.command", b"sow_delete"), ("sow.keys", joined_keys(named).encode())]
        self.shards.world.write(
            partition_of(key, self.shards.topic.partitions),
            value,
            None if command.startswith("delete") else key.encode(),
            headers,
        )

    def _sow_key(self, number: int) -> str:
        return self.shards.topic.key_rule.sow_key(self.key_of[number]).decode()

    @rule(some=st.lists(writes, min_size=1, max_size=6))
    def write(self, some: list[Any]) -> None:
        """Log records arrive one by one."""

        async def step() -> None:
            for command, number, what in some:
                self._write(command, number, what)
                for partition, events in self.shards.new_changes():
                    self.shards.feed(partition, events)
                    await self._compare(is_orderly=True)

        self.run(step())

    @rule(some=st.lists(writes, min_size=2, max_size=12))
    def write_at_once(self, some: list[Any]) -> None:
        """Log records of several partitions arrive at once."""

        async def step() -> None:
            self._write_all(some)
            await self._compare(is_orderly=False)

        self.run(step())

    def _write_all(self, some: list[Any]) -> None:
        for command, number, what in some:
            self._write(command, number, what)
        for partition, events in self.shards.new_changes():
            self.shards.feed(partition, events)

    @rule(ms=st.sampled_from([1, 1000, 60_000]))
    def pass_log_time(self, ms: int) -> None:
        """Later log records are of a later time."""
        self.shards.world.time += ms

    @rule(ms=st.sampled_from([10, 50, 60, 200, 1000]))
    def tick(self, ms: int) -> None:
        """Time passes."""
        self.run(self._tick(ms))

    async def _tick(self, ms: int) -> None:
        await self.loop.tick(ms)
        await self._compare(is_orderly=True)

    async def _compare(self, *, is_orderly: bool, is_settled: bool = False) -> None:
        await self.loop.rest()
        for one in self.subscribed:
            await one.compare(is_orderly=is_orderly)
        self.subscribed = [one for one in self.subscribed if not one.is_over]
        for one in self.subscribed:
            if one.is_exact and one.ask.conflation != "auto":
                one.compare_positions()
            if not one.ask.conflation or is_settled:
                await self._compare_held(one)

    async def _compare_held(self, one: Subscribed) -> None:
        if one.is_paused:
            return
        if not one.is_exact and one.ask.is_limited and one.ask.delta:
            return  # of what its first group was too short for it holds the fields that have changed in some step
        one.compare_held(await self._shown(one.ask) if one.keeps_more else None)

    async def _shown(self, ask: Ask) -> set[str]:
        """Return the SOW keys of what the query service shows now."""
        fields = (
            replace(ask, words=(), conflation="", command="sow").fields() | {"command_id": "1"} | self.more
        )
        if not ask.is_window:
            fields.pop("top_n", None)
        reader = self._asker(ask.whose)[0]
        reader.ask(self._with_keys(fields, ask.sow_keys) | {"ack_type": "completed"})
        found = answer_of(list(map(json.loads, await reader.read())), is_sorted=False)
        assert found.acks[-1]["status"] == "success"
        return {json.loads(record)["sow_key"] for _, record in found.records}

    def _asker(self, whose: str) -> tuple[Reader, Reader]:
        """Return the clients that send queries with some rights."""
        if whose not in self.askers:
            self.askers[whose] = self.shards.connect(MINE[whose].rights)
        return self.askers[whose]

    # what subclasses ask with

    def _request(self, ask: Ask, *words: str) -> Json:
        """Return the command of a subscription."""
        acks = "processed,completed,stats" if ask.has_snapshot else "processed,completed"
        fields = ask.fields(*words) | {"command_id": "1", "ack_type": acks} | self.more
        return self._with_keys(fields, ask.sow_keys)

    def _with_keys(self, fields: Json, numbers: Sequence[int]) -> Json:
        """Return the fields of a command with the SOW keys that these records have in this topic."""
        return fields | ({"sow_keys": [self._sow_key(number) for number in numbers]} if numbers else {})

    async def _subscribe(self, ask: Ask, **more: Any) -> Subscribed:
        one = Subscribed(self.shards.connect(MINE[ask.whose].rights), ask)
        one.send(self._request(ask) | more)
        self.subscribed.append(one)
        await self._compare(is_orderly=True)
        return one

    # bookmarks, and the end

    @rule()
    def remember(self) -> None:
        """Remember a bookmark."""
        topic = self.shards.whole.topic
        self.bookmarks.append(topic.bookmark(topic.positions))

    @rule()
    def remember_time(self) -> None:
        """Remember the time."""
        moment = datetime.fromtimestamp(self.shards.world.time / 1000, UTC)
        self.bookmarks.append(moment.strftime("%Y%m%dT%H%M%S.%fZ"))

    def teardown(self) -> None:
        """Come to rest, and leave nothing behind."""
        if not hasattr(self, "shards"):
            return
        try:
            self.run(self._come_to_rest())
        finally:
            self.run(self.shards.stop())
            self.loop.close()

    @rule()
    def come_to_rest(self) -> None:
        """All intervals end."""
        self.run(self._come_to_rest())

    async def _come_to_rest(self) -> None:
        for _ in range(2):
            await self.loop.tick(6000)
            await self._compare(is_orderly=True, is_settled=True)
