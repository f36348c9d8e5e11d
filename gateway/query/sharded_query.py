"""A query over all partitions of its topics, which several nodes hold.

Each node takes its own instant: the answer is consistent within each partition, not across partitions, as that of one
query service is. Until all nodes have begun, a node that fails is replaced by another one; after that the query
fails.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

import orjson

from fanout.engine.groups import MergedGroups
from gateway.nodes.connections import COMMAND_ID, NodeLost
from gateway.nodes.failover import NodesFailed, begin_each, replaceable, replaced, with_failover
from gateway.nodes.node_set import NodeSet
from gateway.nodes.routing import UNAVAILABLE, Route, by_topic, unavailable
from gateway.query.merge import Key, merged
from gateway.query.part import Batch, Part, longest_lag
from sowline.errors import SowlineError
from sowline.expressions.projection import parse_projection
from sowline.filter import ALL
from sowline.model.bookmark import Positions, format_bookmark, lay_over
from sowline.model.key import hash_of
from sowline.protocol.request import Request
from sowline.protocol.server_message import sow_record
from sowline.serving.authorization.entitlements import Rights, together
from sowline.serving.cooperative import in_turns
from sowline.serving.outbox.group import RecordPortion
from sowline.serving.result import QueryLimits, Result

NODE_BATCH = 1000
"""Records in a message of a node."""

QUEUED_BATCHES = 4

FORWARDED = (
    "topic",
    "filter",
    "condition",
    "options",
    "order_by",
    "sow_keys",
    "bookmark",
    "up_to",
    "max_staleness",
)
"""The fields of a request that each node gets as they are."""


def forwarded(request: Request, command: str, floor: str = "", **fields: Any) -> dict[str, Any]:
    """Return a request for nodes: the client's, for a state at `floor` or beyond it."""
    given = {name: getattr(request, name) for name in FORWARDED}
    kept = {
        name: list(value) if isinstance(value, tuple) else value for name, value in given.items() if value
    }
    fresh = {"at_least": floor} if floor else {}
    return {"command": command, "command_id": COMMAND_ID, **kept, **fresh, **fields}


class ShardedQuery:
    """One run over one topic or several: `begin` it once, then iterate over `records` once, and `close` it.

    `floor` are positions by log that the answer must have reached, because the client has seen them.
    """

    def __init__(
        self,
        nodes: NodeSet,
        request: Request,
        topics: Sequence[str],
        rights: Rights,
        limits: QueryLimits,
        floor: Mapping[str, Positions],
        subscription: Mapping[str, Any] | None = None,
        *,
        has_group: bool = True,
    ) -> None:
        """Prepare a query; or, with the fields in which the nodes' command differs from one, a subscription."""
        self.result = Result()
        self._subscription = subscription
        self._has_group = has_group
        self._nodes = nodes
        self._request = request
        self._topics = topics
        self._rights = rights
        self._limits = limits
        self._floor = floor
        self._parts: list[Part] = []
        self._logs = {nodes.topics[name].log: name for name in topics}

    @property
    def positions(self) -> dict[str, Positions]:
        """By log, the positions of the query's instants."""
        positions: dict[str, Positions] = {}
        for part in self._parts:
            positions = lay_over(positions, part.positions_by_log)
        return positions

    @property
    def parts(self) -> Sequence[Part]:
        """The parts of the answer, one of each node."""
        return self._parts

    @property
    def bookmark(self) -> str:
        """The bookmark of the instants."""
        return format_bookmark(self.positions)

    # the instant

    async def begin(self) -> None:
        """Wait for the instant of each node; raise `shard unavailable`, or the error of the request."""
        top = None if self._request.top_n is None else (self._request.skip_n or 0) + self._request.top_n
        # The limit is for groups after the merge: a node sends all of its own.
        page = {} if top is None or self._request.parsed_options.projection else {"top_n": top}
        fields = {"ack_type": "processed,stats", "batch_size": NODE_BATCH, "merges": True, **page}
        floor = format_bookmark(self._floor) if self._floor else ""
        request = forwarded(self._request, "sow", floor, **fields) | dict(self._subscription or {})
        await with_failover(self._nodes, lambda avoid: self._begin_parts(request, avoid))
        self.result.topic_matches = sum(part.topic_matches for part in self._parts)
        self.result.warnings = _agreed(self._parts)
        self._note_missing()

    async def _begin_parts(self, request: dict[str, Any], avoid: Collection[str]) -> None:
        """Begin a part on each node of a route; keep those that have begun in an attempt before."""
        wanted = self._routes(avoid)
        dropped, self._parts = replaced(
            self._parts, wanted, lambda route: Part(route, has_group=self._has_group)
        )
        for part in dropped:
            await part.close()
        await begin_each(self._begin_part(part, request) for part in self._parts if not part.has_begun)

    def _routes(self, avoid: Collection[str]) -> list[Route]:
        """Return the nodes to ask; those that there are, if the client accepts that partitions are missing."""
        floor = self._by_topic(self._floor)
        try:
            return self._nodes.routes(self._topics, floor, avoid)
        except SowlineError as error:
            is_accepted = self._request.parsed_options.partial and error.reason == UNAVAILABLE
            found = self._nodes.some_routes(self._topics, floor, avoid) if is_accepted else []
            if not found:
                raise
            return found

    def _note_missing(self) -> None:
        missing = self._nodes.partitions(self._topics).difference(*(part.share for part in self._parts))
        if missing:
            self.result.missing = by_topic(missing)
            self.result.warnings.append(f"the answer is partial: {unavailable(missing).message}")

    async def _begin_part(self, part: Part, request: dict[str, Any]) -> None:
        """Begin a part; raise `NodesFailed`, or why no node can answer."""
        share = part.route.share
        async with replaceable(self._nodes, part.url, share):
            await part.begin(self._nodes.connections, self._rights, request)
        if part.answers_for(self._logs) != share:
            part.has_begun = False
            # It holds other partitions than it announced: it was started again as another shard.
            raise NodesFailed([part.url], unavailable(share))
        if not self._request.bookmark:
            # Its announcement may be half a second old. The next query of this client must not go to a node that is
            # only announced to be as far (test_an_answer_never_goes_behind_one_before).
            self._nodes.announcements.note(part.url, self._by_topic(part.positions_by_log))

    def _by_topic(self, floor: Mapping[str, Positions]) -> dict[str, Positions]:
        return {self._logs[log]: positions for log, positions in floor.items() if log in self._logs}

    # the records

    async def records(self) -> AsyncIterator[RecordPortion]:
        """Yield the records in the form that is sent, in the requested order and number.

        Raise `shard unavailable` if a node is lost, and `result too large` or `too many groups`.
        """
        try:
            if self._request.parsed_options.projection:
                portions = self._groups()
            elif self._request.order.terms or self._request.top_n is not None:
                portions = self._sorted()
            else:
                portions = self._side_by_side()
            async with aclosing(portions):
                async for batch in portions:
                    self.result.count(len(batch.records), sum(map(len, batch.records)), 0)
                    self._limits.check(self.result)
                    yield RecordPortion(batch.topic, batch.records)
        except NodeLost as lost:
            raise SowlineError(
                UNAVAILABLE, f"a query service was lost while it answered; ask again: {lost}"
            ) from lost
        self.count()

    async def _side_by_side(self) -> AsyncGenerator[Batch, None]:
        """Yield the records of all parts as they arrive."""
        async with aclosing(self.batches()) as batches:
            async for _, batch in batches:
                yield batch
        for part in self._parts:
            self.result.hash ^= part.counts.hash

    async def batches(self) -> AsyncGenerator[tuple[Part, Batch], None]:
        """Yield what all parts send, as it arrives, each batch with its part; raise `NodeLost`, or a node's error."""
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
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _sorted(self) -> AsyncGenerator[Batch, None]:
        order, numbers = self._request.order, {name: number for number, name in enumerate(self._topics)}

        def keys_of(batch: Batch) -> list[Key]:
            number = numbers[batch.topic]
            return [(order.key_of(values, sow_key.encode()), number) for sow_key, *values in batch.ordering]

        skip = self._request.skip_n or 0
        end = None if self._request.top_n is None else skip + self._request.top_n
        async for batch in merged([part.batches() for part in self._parts], keys_of, skip, end):
            self.result.hash ^= hash_of(sow_key.encode() for sow_key, *_ in batch.ordering)
            yield batch

    async def _groups(self) -> AsyncGenerator[Batch, None]:
        """Merge the states of the nodes' groups, then yield the groups."""
        (topic,) = self._topics
        options, order = self._request.parsed_options, self._request.order
        projection = parse_projection(options.projection)
        groups = MergedGroups(topic, options.grouping, projection, groups_max=self._limits.groups_max)
        async with aclosing(self.batches()) as batches:
            async for part, batch in batches:
                await in_turns(map(partial(groups.put, part.share), batch.records))
        found = await in_turns(groups.records())
        if order.terms:
            keyed = await in_turns((order.key(orjson.loads(body), key), (key, body)) for key, body in found)
            found = [group for _, group in await asyncio.to_thread(sorted, keyed)]
        skip = self._request.skip_n or 0
        found = found[skip : None if self._request.top_n is None else skip + self._request.top_n]
        for start in range(0, len(found), NODE_BATCH):
            some = found[start : start + NODE_BATCH]
            yield Batch(
                topic, [sow_record(None if options.no_sowkey else key, None, body) for key, body in some]
            )
        self.result.hash = hash_of(key for key, _ in found)

    def count(self) -> None:
        """Add up what the nodes have counted; all their batches must have been read."""
        counts = [part.counts for part in self._parts]
        hides = together(self._rights.read, self._topics).filter != ALL
        keys = self._request.sow_keys
        self.result.topic_matches = (
            len(keys) if keys and hides else sum(count.topic_matches for count in counts)
        )
        self.result.matches = sum(count.matches for count in counts)
        self.result.lag_seconds = longest_lag(self._parts)

    async def close(self) -> None:
        """Return the connections."""
        for part in self._parts:
            await part.close()


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
