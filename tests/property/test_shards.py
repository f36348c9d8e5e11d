"""A gateway over shards answers as one query service does: queries, reads and subscriptions, whatever is written."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from sowline.model.key import partition_of
from tests.examples import examples
from tests.property.answers import answer_of, is_sorted
from tests.property.asks import GROUPINGS, MINE, Ask, asks_for_records
from tests.property.compared_services import ComparedServices
from tests.property.shard_asks import BAD, IDS, MORE_FILTERS, MORE_ORDERS, asks, ids, queries, whose, writes
from tests.property.shard_clients import Subscribed, by_partition, known, positions_of, refusals
from tests.property.shards import Reader
from tests.unit.query_service.sessions import Json
from tests.waiting import loop_turns

pytestmark = pytest.mark.slow


class ShardsAgainstOne(ComparedServices):
    """Clients who ask both: for subscriptions, queries, replays, and over HTTP."""

    # subscribers

    @rule(ask=st.none() | asks, mine=whose, slot=st.integers(0, 2))
    def subscribe(self, ask: Ask | None, mine: str, slot: int) -> None:
        """A new subscription, often to what others have subscribed to."""
        if len(self.subscribed) < 6:
            ask = self.asked[slot % len(self.asked)] if ask is None else replace(ask, whose=mine)
            self.run(self._subscribe_and_forget(ask))

    async def _subscribe_and_forget(self, ask: Ask) -> None:
        await self._subscribe(ask)

    def _slot(self, slot: int) -> Subscribed | None:
        return self.subscribed[slot] if slot < len(self.subscribed) else None

    @rule(slot=st.integers(0, 5), ask=asks)
    def replace(self, slot: int, ask: Ask) -> None:
        """A subscription takes another one's place."""

        async def step(one: Subscribed) -> None:
            now = replace(ask, whose=one.ask.whose)
            await one.replace(now, self._request(now, "replace"))
            if one.is_over:
                self.subscribed.remove(one)
            await self._compare(is_orderly=True)

        if (one := self._slot(slot)) is not None:
            self.run(step(one))

    @rule(slot=st.integers(0, 5), narrower=st.sampled_from(MORE_FILTERS), skip=st.integers(0, 2))
    def replace_some(self, slot: int, narrower: str, skip: int) -> None:
        """Only the filter and the window of a page change."""
        if (one := self._slot(slot)) is not None:
            self.replace(
                slot, replace(one.ask, filter=narrower, skip_n=None if one.ask.skip_n is None else skip)
            )

    @rule(ask=asks, turns=st.integers(0, 40), meanwhile=st.lists(writes, min_size=1, max_size=6))
    def subscribe_meanwhile(self, ask: Ask, turns: int, meanwhile: list[Any]) -> None:
        """Changes come while a subscription begins: it begins with them, or is sent them."""
        if ask.has_snapshot and not ask.is_limited and len(self.subscribed) < 6:
            self.run(self._subscribe_meanwhile(ask, turns, meanwhile))

    async def _subscribe_meanwhile(self, ask: Ask, turns: int, meanwhile: list[Any]) -> None:
        one = Subscribed(self.shards.connect(MINE[ask.whose].rights), ask)
        one.send(self._request(ask))
        await loop_turns(turns)
        self._write_all(meanwhile)
        await self._compare(is_orderly=False)
        await self._tick(6000)
        await one.catch_up()
        self.subscribed.append(one)
        await self._compare(is_orderly=False)

    @rule(slot=st.integers(0, 5))
    def pause_or_resume(self, slot: int) -> None:
        """A client pauses, or goes on."""

        async def step(one: Subscribed) -> None:
            one.is_paused = not one.is_paused
            command = "pause" if one.is_paused else "resume"
            one.send({"command": command, "command_id": "2", "ack_type": "processed"})
            await self._compare(is_orderly=True)

        if (one := self._slot(slot)) is not None:
            self.run(step(one))

    @rule(slot=st.integers(0, 5))
    def prove(self, slot: int) -> None:
        """A client asks what it should hold."""
        if (one := self._slot(slot)) is not None:
            self.run(one.prove())

    @rule(slot=st.integers(0, 5))
    def unsubscribe(self, slot: int) -> None:
        """A subscription ends."""

        async def step(one: Subscribed) -> None:
            one.send({"command": "unsubscribe", "command_id": "3", "ack_type": "processed"})
            await one.compare(is_orderly=True)
            self.subscribed.remove(one)

        if (one := self._slot(slot)) is not None:
            self.run(step(one))

    @rule(slot=st.integers(0, 5), by=st.integers(0, 1), misses=st.lists(writes, max_size=6))
    def come_back(self, slot: int, by: int, misses: list[Any]) -> None:
        """Both clients come back with the bookmark of one of them."""

        async def step(one: Subscribed) -> None:
            for reader in one.both:
                reader.close()
            self.subscribed.remove(one)
            self._write_all(misses)
            await self._compare(is_orderly=False)
            one.both = self.shards.connect(MINE[one.ask.whose].rights)
            one.is_paused = False
            one.send(self._request(one.ask) | {"bookmark": one.held[by].position.bookmark})
            if one.ask.conflation:
                await self._tick(6000)  # a gateway sends the difference after an interval, then `completed`
            if one.ask.grouping is None or not one.ask.grouping.tells_latest:
                await one.compare(is_orderly=True)
            else:
                await one.compare_return_of_latest()
            self.subscribed += [] if one.is_over else [one]
            await self._compare(is_orderly=True)

        if (one := self._slot(slot)) is not None:
            self.run(step(one))

    # queries

    @rule(
        some=st.lists(queries(), min_size=1, max_size=4),
        mine=whose,
        at=st.none() | st.integers(0, 5),
        fresh=st.sampled_from(["", "", "at_least"]),
    )
    def query(self, some: list[Json], mine: str, at: int | None, fresh: str) -> None:
        """Queries of now, or at a bookmark."""
        for query in some:
            acks = {"command": "sow", "command_id": "1", "ack_type": "processed,completed,stats"}
            fields = self._with_keys(acks | query, query.get("sow_keys", ()))
            if at is not None and self.bookmarks:
                fields[fresh or "bookmark"] = self.bookmarks[at % len(self.bookmarks)]
            self.run(self._ask_both(self._asker(mine), fields))

    async def _ask_both(self, both: tuple[Reader, Reader], fields: Json) -> None:
        answers = []
        for reader in both:
            reader.ask(fields)
        for reader in both:
            messages = list(map(json.loads, await reader.read()))
            if not messages:
                await self._tick(12_000)
                messages = list(map(json.loads, await reader.read()))
            answers.append(answer_of(messages, is_sorted=is_sorted(fields)))
        whole, gateway = answers
        assert refusals(gateway.acks) == refusals(whole.acks)
        assert known(gateway.ends) == known(whole.ends)
        assert gateway.records == whole.records
        assert by_partition(gateway.live) == by_partition(whole.live)

    @rule(wrong=st.sampled_from(BAD), command=st.sampled_from(["sow", "subscribe", "sow_and_subscribe"]))
    def ask_wrongly(self, wrong: Json, command: str) -> None:
        """A command that is refused, or is no mistake for this kind of topic."""
        fields = {"topic": "orders", "command": command, "command_id": "1", "ack_type": "processed"} | wrong
        # On a connection of its own: it may begin a subscription.
        both = self.shards.connect(MINE["everything"].rights)
        self.run(self._ask_both(both, fields))
        for reader in both:
            reader.close()

    # replays with an end or a rate

    @rule(
        ask=asks_for_records(MORE_FILTERS, MORE_ORDERS),
        begin=st.sampled_from(["epoch", "bookmark"]),
        end=st.sampled_from(["", "now", "bookmark"]),
        rate=st.sampled_from(["", "rate=1000", "rate=1MB", "rate=1000X"]),
        mine=st.sampled_from(["everything", "some records"]),
        slots=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    )
    def replay(self, ask: Ask, begin: str, end: str, rate: str, mine: str, slots: tuple[int, int]) -> None:
        """A subscription from a bookmark, up to an end or at a rate: in the order of time across partitions."""
        given = self.bookmarks or ["epoch"]
        ask = replace(ask, whose=mine, conflation="")
        fields: Json = {"bookmark": given[slots[0] % len(given)] if begin == "bookmark" else begin}
        if end:
            fields["up_to"] = given[slots[1] % len(given)] if end == "bookmark" else end
        request = self._request(ask, rate) if rate else self._request(ask)
        self.run(self._replay(ask, request | fields, ends=bool(end)))

    async def _replay(self, ask: Ask, request: Json, *, ends: bool) -> None:
        one = Subscribed(self.shards.connect(MINE[ask.whose].rights), ask)
        one.send(request)
        await self._tick(15_000)
        messages = await one.compare(is_orderly=True)
        if ends:
            for some in messages:
                times = [self.shards.time_of(message["bookmark"]) for message in some.live]
                assert times == sorted(times)
        for reader in one.both:
            reader.close()

    # HTTP

    @rule(
        number=ids,
        mine=whose,
        what=st.sampled_from(["", "/timeline", "/timeline?limit=2&reversed=false", "?x=1"]),
    )
    def read_record(self, number: int, mine: str, what: str) -> None:
        """A record, or its timeline."""
        path = f"/v1/topics/orders/records/{quote(self.key_of[number], safe='')}{what}"
        self.run(
            self._read_record(path, partition_of(self.key_of[number], self.shards.topic.partitions), mine)
        )

    async def _read_record(self, path: str, partition: int, mine: str) -> None:
        answers = await self.shards.request("GET", path, MINE[mine].rights)
        bookmarks, rest = [], []
        for status, headers, body in answers:
            found = json.loads(body)
            bookmarks.append(headers.pop("sowline-bookmark", "") or found.pop("bookmark", ""))
            rest.append((status, headers, found))
        assert rest[1] == rest[0]
        if any(bookmarks):
            # docs/gateway.md, "How gateways differ": the bookmark is of the node that has the record.
            whole, gateway = map(positions_of, bookmarks)
            assert gateway.items() <= whole.items()
            assert partition in gateway

    @rule(mine=whose)
    def describe_fields(self, mine: str) -> None:
        """The fields of a topic; a gateway describes a sample of one node's records."""
        if len(self.shards.nodes) == 1:
            self.run(self._same_answer("GET", "/v1/topics/orders/fields", mine))

    async def _same_answer(self, method: str, path: str, mine: str, body: Json | None = None) -> None:
        whole, gateway = await self.shards.request(method, path, MINE[mine].rights, body)
        assert gateway == whole

    @rule(query=queries(), mine=whose, explains=st.booleans())
    def query_over_http(self, query: Json, mine: str, explains: bool) -> None:
        """A query, or how it would find its records."""
        topic = query["topic"]
        fields = {name: value for name, value in query.items() if name not in ("topic", "batch_size")}
        fields = self._with_keys(fields, query.get("sow_keys", ()))
        self.run(self._query_over_http(quote(topic), fields, mine, explains=explains))

    async def _query_over_http(self, topic: str, fields: Json, mine: str, *, explains: bool) -> None:
        path = f"/v1/topics/{topic}/{'explain' if explains else 'sow'}"
        whole, gateway = await self.shards.request("POST", path, MINE[mine].rights, fields)
        if whole.status != 200:
            assert gateway == whole
            return
        assert gateway.status == 200
        if explains:
            # Which access path a service takes depends on the records that it holds.
            expected, found = json.loads(whole.body), json.loads(gateway.body)
            assert found["bookmark"] == expected["bookmark"]
            holders = [str(node.held_shard) for node in self.shards.nodes if node.topic.partitions]
            assert sorted(path["shard"] for path in found["access_paths"]) == holders
            return
        lines = [answer.body.splitlines() for answer in (whole, gateway)]
        expected, found = lines if is_sorted(fields) else map(sorted, lines)
        assert found == expected
        assert gateway.headers["sowline-bookmark"] == whole.headers["sowline-bookmark"]


TestShards = ShardsAgainstOne.TestCase
TestShards.settings = examples(110, stateful_step_count=20)


def begun(*asked: Ask, first: Sequence[Json], shards: int = 2) -> ShardsAgainstOne:
    """Return a machine with these records, in partitions that several nodes hold, and these subscriptions."""
    machine = ShardsAgainstOne()
    machine.begin("fields", "", 4, shards, 0, 1000, [], first, list(asked), "everything", "")
    return machine


SOME = [{"n": number % 3, "g": "ab"[number % 2]} for number in IDS]


def test_a_field_that_no_record_has() -> None:
    """Each node warns; that one of them knows a similar field, or has only groups to send, is no reason not to."""
    first = [{**body, "o": {"x": 1}} if number == 0 else body for number, body in enumerate(SOME)]
    groups = [
        Ask("sow_and_subscribe", filter, grouping=GROUPINGS[0]) for filter in ("/nosuch = 1", "/ox = 1")
    ]
    machine = begun(*groups, first=first)
    options = f"grouping=[/g],projection=[{GROUPINGS[0].projection}]"
    for filter in ("/nosuch = 1", "/ox = 1"):
        machine.query([{"topic": "orders", "filter": filter}], "everything", None, "")
        machine.query([{"topic": "orders", "filter": filter, "options": options}], "everything", None, "")
        machine.replay(Ask("sow_and_subscribe", filter), "now", "", "rate=1000", "everything", (0, 0))
    machine.teardown()


def test_a_page_of_latest_fields_that_came_back() -> None:
    """Nobody can tell which records were the latest: it has expired, unless nothing has changed."""
    page = Ask("sow_and_subscribe", words=("oof",), order="yes", top_n=1, skip_n=0, grouping=GROUPINGS[2])
    machine = begun(page, page, first=SOME)
    machine.come_back(slot=0, by=1, misses=[])
    machine.come_back(slot=0, by=1, misses=[("publish", 0, SOME[0])])
    assert len(machine.subscribed) == 1
    machine.teardown()


def test_a_group_that_is_as_it_was_before_a_pause() -> None:
    """A change of it meanwhile is no difference."""
    machine = begun(Ask("sow_and_subscribe", grouping=GROUPINGS[0]), first=SOME)
    machine.pause_or_resume(slot=0)
    machine.write([("publish", 0, SOME[0])])
    machine.pause_or_resume(slot=0)
    machine.teardown()


def test_a_paused_subscription_has_no_checksum() -> None:
    """Also where the gateway has no subscription at the nodes for it."""
    machine = begun(Ask("sow_and_subscribe"), first=SOME)
    machine.pause_or_resume(slot=0)
    machine.prove(slot=0)
    machine.teardown()
