"""A query over all partitions of its topics, which several nodes hold.

Each node takes its own instant: as with one query service, the answer is consistent within each partition, not across
partitions. Until all nodes have begun, a node that fails is replaced by another one; after that the query
fails.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from itertools import starmap
from math import isqrt

import orjson
from msgspec import structs

from sowline.errors import SowlineError
from sowline.language.expressions.projection import parse_projection
from sowline.language.filter import ALL
from sowline.language.groups import MergedGroups
from sowline.model.bookmark import Positions, PositionsByLog, format_bookmark, lay_over
from sowline.model.key import hash_of
from sowline.model.path import Scalar
from sowline.serving.authorization.entitlements import EVERYTHING, Rights, together
from sowline.serving.cooperative import in_turns
from sowline.serving.outbox.group import RecordPortion
from sowline.serving.query_slots import QueryTurn, lent
from sowline.serving.result import QueryLimits, Result
from sowline.serving.sorting import sorted_in_turns
from sowline.wire.node_queries import BATCH, NodeQuery, records_of
from sowline.wire.options import Options
from sowline.wire.request import Read, Sow
from sowline.wire.request_fields import SowKeys
from sowline.wire.server_message import sow_record, with_ranks
from sowline_gateway.nodes.connections import NodeLost
from sowline_gateway.nodes.failover import NodesFailed, begin_each, replaceable, replaced, with_failover
from sowline_gateway.nodes.node_message import NodeMessage
from sowline_gateway.nodes.node_set import NodeSet
from sowline_gateway.nodes.routing import UNAVAILABLE, Route, Share, by_topic, unavailable
from sowline_gateway.query.key_routing import partitions_of_keys
from sowline_gateway.query.merge import Key, merged, surely_before
from sowline_gateway.query.part import Batch, Part, longest_lag
from sowline_gateway.query.reached import with_views_between
from sowline_gateway.query.seen import newest

QUEUED_BATCHES = 4

DEEP = 500
"""The number of skipped records from which a page is deep: then nodes send samples instead of these records."""


class ShardedQuery:
    """One run over one topic or several: `begin` it once, then iterate over `records` once, and `close` it.

    `floor` are positions by log that the answer must have reached, because the client has seen them.
    """

    def __init__(  # noqa: PLR0913 - the parts of a query that a client, its rights and a view decide
        self,
        nodes: NodeSet,
        request: Read,
        topics: Sequence[str],
        rights: Rights,
        limits: QueryLimits,
        floor: Mapping[str, Positions],
        instead: Callable[[NodeQuery], NodeQuery] | None = None,
        *,
        has_group: bool = True,
        compared: Sequence[str] = (),
    ) -> None:
        """Prepare a query, or another read if `instead` turns the query for the nodes into one.

        `has_group`: the answers begin with a group. `compared` are further topics whose records the nodes need.
        """
        self.result = Result()
        self._instead = instead
        self._has_group = has_group
        self._all_topics = (*topics, *compared)
        self._nodes = nodes
        self._request = request
        self._topics = topics
        self._rights = rights
        self._limits = limits
        self._floor = floor
        self._parts: list[Part] = []
        skip = request.skip_n or 0
        # With four nodes, there are then as many samples as records that are fetched but not on the page.
        self._sample_n = isqrt(skip // 4) if skip >= DEEP and instead is None else 0
        """Every n-th skipped record is a sample of a deep page; 0 for other queries."""
        # The bookmark of a subscription must move on in all partitions, or it would expire.
        self._needed = None if instead is not None else partitions_of_keys(nodes.topics, request, topics)
        self._elsewhere: PositionsByLog = {}
        """Positions of partitions whose nodes were not asked, because no record with the requested keys is there."""

    @property
    def positions(self) -> PositionsByLog:
        """By log, the positions of the query's instants."""
        positions, logs = self._elsewhere, {self._nodes.topics[name].log for name in self._topics}
        for part in self._parts:
            positions = lay_over(positions, part.positions_by_log)
        return {log: held for log, held in positions.items() if log in logs}

    @property
    def parts(self) -> Sequence[Part]:
        """The parts of the answer, one for each node."""
        return self._parts

    @property
    def bookmark(self) -> str:
        """The bookmark of the instants."""
        return format_bookmark(self.positions)

    # the instant

    async def begin(self, turn: QueryTurn | None = None) -> None:
        """Wait for the instant of each node; raise `shard unavailable`, or the error of the request.

        While it waits for nodes, others may use its turn, if it has one.
        """
        accepts_parts = self._request.options.partial
        self._floor = await floor_of(
            self._nodes, self._all_topics, self._floor, turn, accepts_parts=accepts_parts
        )
        request = structs.replace(records_of(self._request, dict(self._floor)), **self._page())
        if self._instead is not None:
            request = self._instead(request)
        await with_failover(
            self._nodes, lambda avoid: self._begin_parts(request, avoid), partial(self._waiting, turn)
        )
        self.result.topic_matches = sum(part.topic_matches for part in self._parts)
        self.result.warnings = _agreed(self._parts)
        self._note_missing()
        self._note_elsewhere()

    @asynccontextmanager
    async def _waiting(self, turn: QueryTurn | None) -> AsyncGenerator[None, None]:
        """Let others run while this query waits for nodes: a part that has begun takes memory at its node."""
        if turn is not None and turn.is_taken:
            await self.close()
            # Otherwise the next attempt would keep parts that are closed, because they have begun.
            self._parts = []
        async with lent(turn):
            yield

    def _page(self) -> dict[str, int]:
        """Return the fields that make a node send the records that the page is merged from."""
        skip, top = self._request.skip_n or 0, self._request.top_n
        # The limit applies to groups after the merge, so a node sends all its groups.
        if top is None or self._request.options.projection:
            return {}
        if self._sample_n:
            return {"skip_n": skip, "top_n": top, "sample_n": self._sample_n}
        return {"top_n": skip + top}

    async def _begin_parts(self, request: NodeQuery, avoid: Collection[str]) -> None:
        """Begin a part on each node of a route; keep those that have begun in an earlier attempt."""
        wanted = self._routes(avoid)
        dropped, self._parts = replaced(
            self._parts, wanted, lambda route: Part(route, has_group=self._has_group)
        )
        for part in dropped:
            await part.close()
        await begin_each(self._begin_part(part, request) for part in self._parts if not part.has_begun)

    def _routes(self, avoid: Collection[str]) -> list[Route]:
        """Return the nodes to ask; just the available ones if the client accepts missing partitions."""
        floor = self._nodes.by_topic(self._floor)
        try:
            return self._nodes.candidates(self._all_topics, floor, avoid, self._needed).routes()
        except SowlineError as error:
            is_accepted = self._request.options.partial and error.reason == UNAVAILABLE
            some = self._nodes.candidates(self._topics, floor, avoid, self._needed)
            if not is_accepted or not (found := some.some_routes()):
                raise
            return found

    def _note_missing(self) -> None:
        missing = self._wanted.difference(*(part.share for part in self._parts))
        if missing:
            self.result.missing = by_topic(missing)
            self.result.warnings.append(f"the answer is partial: {unavailable(missing).message}")

    @property
    def _wanted(self) -> Share:
        """The partitions that must be answered for."""
        return self._nodes.partitions(self._all_topics) if self._needed is None else self._needed

    def _note_elsewhere(self) -> None:
        """Complete the bookmark: without a partition it would begin there at its first change."""
        if self._needed is not None and not self.result.missing:
            announced = self._nodes.announced(self._nodes.partitions(self._topics))
            self._elsewhere = newest(announced, self._floor)

    async def _begin_part(self, part: Part, request: NodeQuery) -> None:
        """Begin a part; raise `NodesFailed`, or why no node can answer."""
        share = part.route.share
        async with replaceable(self._nodes, part.url, share):
            await part.begin(self._nodes.connections, self._rights, request)
        if part.answers_for(self._nodes.names) & self._wanted != share:
            # Otherwise the next attempt would keep this part, because its routing still fits the announcement.
            part.has_begun = False
            # It holds other partitions than it announced: it was started again as another shard.
            raise NodesFailed([part.url], unavailable(share))
        if not self._request.bookmark:
            # Its announcement may be half a second old. The next query of this client must not go to a node that is
            # only announced to be as far (test_an_answer_never_goes_behind_one_before).
            self._nodes.note_shown(part.url, part.positions_by_log)

    # the records

    async def records(self) -> AsyncIterator[RecordPortion]:
        """Yield the records in the form that is sent, in the requested order and number.

        Raise `shard unavailable` if a node is lost, and `result too large` or `too many groups`.
        """
        try:
            if self._request.options.projection:
                portions = self._groups()
            elif self._request.order.terms or self._request.top_n is not None:
                portions = self._sorted()
            else:
                portions = self._side_by_side()
            rank = self._request.skip_n or 0
            # A generator that is merely dropped ends at its collection: until then its tasks read the connections.
            async with aclosing(portions):
                async for batch in portions:
                    if self._request.options.rank:
                        batch.records = with_ranks(batch.records, rank)
                        rank += len(batch.records)
                    self.result.count(len(batch.records), sum(map(len, batch.records)), 0)
                    self._limits.check(self.result)
                    yield RecordPortion(batch.topic, batch.records)
        except NodeLost as lost:
            raise _lost(lost) from lost
        self.count()

    async def leaving(self) -> AsyncIterator[NodeMessage]:
        """Yield the messages before the groups, if the answers do not begin with these; raise `shard unavailable`."""
        try:
            for part in self._parts:
                async for message in part.leaving():
                    yield message
        except NodeLost as lost:
            raise _lost(lost) from lost
        self.result.warnings = _agreed(self._parts)

    async def _side_by_side(self) -> AsyncGenerator[Batch, None]:
        """Yield the records of all parts as they arrive."""
        async with aclosing(self.batches()) as batches:
            async for _, batch in batches:
                yield batch
        for part in self._parts:
            self.result.hash ^= part.counts.hash

    async def batches(self) -> AsyncGenerator[tuple[Part, Batch], None]:
        """Yield the batches of all parts as they arrive, each with its part; raise `NodeLost`, or a node's error."""
        # Bounded: a client that reads slowly must slow its nodes, not fill the gateway.
        queue: asyncio.Queue[tuple[Part, Batch] | BaseException | None] = asyncio.Queue(QUEUED_BATCHES)

        async def read(part: Part) -> None:
            try:
                async for batch in part.batches():
                    await queue.put((part, batch))
                await queue.put(None)
            except Exception as error:
                await queue.put(error)

        tasks = [asyncio.create_task(read(part)) for part in self._parts]
        try:
            left = len(tasks)
            while left:
                found = await queue.get()
                if isinstance(found, BaseException):
                    raise found
                if found is None:
                    left -= 1
                else:
                    yield found
        finally:
            for task in tasks:
                task.cancel()
            # Until they have ended: a task that still reads would take messages of the connection's next query.
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _sorted(self) -> AsyncGenerator[Batch, None]:
        order, numbers = self._request.order, {name: number for number, name in enumerate(self._topics)}

        def key_of(topic: str, sow_key: str, *values: Scalar) -> Key:
            return order.key_of(values, sow_key.encode()), numbers[topic]

        def keys_of(batch: Batch) -> list[Key]:
            return [key_of(batch.topic, *one) for one in batch.ordering]

        skip, top = self._request.skip_n or 0, self._request.top_n
        if self._sample_n and top is not None:
            skip = await self._skip_at_nodes(key_of, skip, top)
        end = None if top is None else skip + top
        async for batch in merged([part.batches() for part in self._parts], keys_of, skip, end):
            self.result.hash ^= hash_of(sow_key.encode() for sow_key, *_ in batch.ordering)
            yield batch

    async def _skip_at_nodes(self, key_of: Callable[..., Key], skip: int, top: int) -> int:
        """Let each node skip records that are surely before the page; return how many are still to be skipped."""
        samples = [await in_turns(starmap(key_of, await part.samples())) for part in self._parts]
        passed = await surely_before(samples, self._sample_n, skip)
        remaining = skip - sum(passed)
        for part, first in zip(self._parts, passed, strict=True):
            await part.fetch(first, remaining + top)
        return remaining

    async def _groups(self) -> AsyncGenerator[Batch, None]:
        """Merge the states of the nodes' groups, then yield the groups."""
        (topic,) = self._topics
        options, order = self._request.options, self._request.order
        projection = parse_projection(options.projection)
        groups = MergedGroups(topic, options.grouping, projection, groups_max=self._limits.groups_max)
        async with aclosing(self.batches()) as batches:
            async for part, batch in batches:
                await in_turns(map(partial(groups.put, part.share), batch.records))
        found = await in_turns(groups.records())
        if order.terms:
            keyed = await in_turns((order.key(orjson.loads(body), key), (key, body)) for key, body in found)
            found = [group for _, group in await sorted_in_turns(keyed)]
        skip = self._request.skip_n or 0
        found = found[skip : None if self._request.top_n is None else skip + self._request.top_n]
        for start in range(0, len(found), BATCH):
            some = found[start : start + BATCH]
            yield Batch(
                topic, [sow_record(None if options.no_sowkey else key, None, body) for key, body in some]
            )
        self.result.hash = hash_of(key for key, _ in found)

    def count(self) -> None:
        """Add up the counts of the nodes; all their batches must have been read."""
        counts = [part.counts for part in self._parts]
        hides = together(self._rights.read, self._topics).filter != ALL
        keys = self._request.sow_keys
        self.result.topic_matches = (
            # To hide which keys exist, each node counts all requested keys. A sum would count a key at each node.
            len(keys) if keys and hides else sum(count.topic_matches for count in counts)
        )
        self.result.matches = sum(count.matches for count in counts)
        self.result.lag_seconds = longest_lag(self._parts)

    async def close(self) -> None:
        """Return the connections."""
        for part in self._parts:
            await part.close()


async def floor_of(
    nodes: NodeSet,
    topics: Sequence[str],
    floor: Mapping[str, Positions],
    turn: QueryTurn | None = None,
    *,
    accepts_parts: bool = False,
) -> PositionsByLog:
    """Return the positions that an answer must have reached, with those of the views between; raise as `begin` does.

    `accepts_parts`: partitions may be missing, as with the option `partial`.
    """

    async def positions_of(view: str, reached: Mapping[str, Positions]) -> PositionsByLog:
        # A lookup of one key costs the least. With an `instead`, all partitions are asked.
        asked = Sow(topic=view, sow_keys=SowKeys(["none"]), options=Options(partial=accepts_parts))
        query = ShardedQuery(nodes, asked, [view], EVERYTHING, QueryLimits(), reached, lambda query: query)
        try:
            await query.begin(turn)
            return query.positions
        finally:
            await query.close()

    return await with_views_between(nodes.topics, topics, floor, positions_of)


def _lost(lost: NodeLost) -> SowlineError:
    return SowlineError(UNAVAILABLE, f"a query service was lost while it answered; ask again: {lost}")


def _agreed(parts: Sequence[Part]) -> list[str]:
    """Return the warnings that every node with records gives: a field that one of them knows is not unknown."""
    given = [{_subject(one): one for one in part.warnings} for part in parts if part.topic_matches]
    return [
        max((warnings[subject] for warnings in given), key=len)
        for subject in (given[0] if given else ())
        if all(subject in warnings for warnings in given)
    ]


def _subject(warning: str) -> str:
    """Return a warning without the suggestion, which depends on the records that a node holds."""
    return warning.partition("; did you mean ")[0]
