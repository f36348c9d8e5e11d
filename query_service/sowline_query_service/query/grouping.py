"""Aggregated queries: the groups of the records that match at one instant."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

import orjson

from sowline.language.expressions.order import Order
from sowline.language.expressions.projection import parse_projection
from sowline.language.groups import Groups, GroupStates
from sowline.model.bookmark import Positions
from sowline.model.key import hash_of
from sowline.model.path import Document
from sowline.serving.cooperative import TURN_RECORDS_MAX, Spend, in_turns, wait_next_turn
from sowline.serving.outbox.group import RecordPortion
from sowline.serving.result import QueryLimits, Result
from sowline.serving.sorting import sorted_in_turns
from sowline.wire.server_message import sow_record, with_ranks
from sowline_query_service.index.rows import RowNumbers
from sowline_query_service.query.query import Query
from sowline_query_service.query.selection import Selection
from sowline_query_service.query.topic_slice import TopicSlice
from sowline_query_service.topics.topic_state import TopicState

CHECKED = 10_000
"""Records after which the memory of groups is checked."""


def groups_of(topic: TopicState, selection: Selection, groups_max: int) -> Groups:
    """Return the groups of a selection, empty; raise `invalid projection`. For a gateway, results are states."""
    options = selection.options
    projection = parse_projection(options.projection)
    kind = GroupStates if selection.merges else Groups
    return kind(topic.definition.name, options.grouping, projection, groups_max=groups_max)


def _nothing() -> None:
    pass


async def load_groups(groups: Groups, query: Query, check: Callable[[], None] = _nothing) -> None:
    """Add all records that a query finds; other tasks run in between. Raise `too many groups`.

    After each portion call `check`, which may raise.
    """
    async for topic_slice, indices in query.matches():
        for start in range(0, len(indices), CHECKED):
            await in_turns(_loading(groups, topic_slice, indices[start : start + CHECKED]), query.work)
            check()


def _loading(groups: Groups, topic_slice: TopicSlice, indices: RowNumbers) -> Iterator[None]:
    for entry in _entries(topic_slice, indices):
        groups.load((entry,))
        yield


def _entries(
    topic_slice: TopicSlice, indices: RowNumbers
) -> Iterator[tuple[bytes, Document, tuple[Any, ...]]]:
    captured, loads = topic_slice.captured, orjson.loads
    for at in indices.tolist():
        # Partitions may have equal log times: without the rest, the latest record of a group would depend on chance.
        order = (int(captured.times[at]), int(captured.partitions[at]), captured.position(at))
        yield captured.keys[at], loads(captured.bodies[at]), order


class GroupedQuery:
    """A query whose records are groups; used as `Query` is, of the same instants.

    `make` returns the query for the records of the groups, where that is not one of now or of a time.
    """

    def __init__(
        self,
        topic: TopicState,
        selection: Selection,
        limits: QueryLimits,
        at: int | None = None,
        make: Callable[[Selection], Query] | None = None,
    ) -> None:
        # Order and limit are those of the groups: each group is computed from all of its records
        # (test_the_limit_is_that_of_the_groups).
        plain = replace(selection, order=Order(), top_n=None, skip_n=0)
        self.result = Result()
        self._name = topic.definition.name
        self._groups = groups_of(topic, selection, limits.groups_max)
        self._query = Query([topic], plain, limits, at) if make is None else make(plain)
        self._selection = selection
        self._limits = limits

    @property
    def positions(self) -> dict[str, Positions]:
        """The positions of the query's instant, by log."""
        return self._query.positions

    @property
    def bookmark(self) -> str:
        """The instant of the query."""
        return self._query.bookmark

    def begin_now(self) -> bool:
        """Take the instant now, if all indexes are ready; return whether it was taken."""
        has_begun = self._query.begin_now()
        self._note_begin()
        return has_begun

    async def wait_for_replica(self) -> None:
        """Wait until the replica has the records of the query."""
        await self._query.wait_for_replica()

    async def begin(self) -> None:
        """Take the instant as soon as all indexes are ready."""
        await self._query.begin()
        self._note_begin()

    def _note_begin(self) -> None:
        found = self._query.result
        self.result.topic_matches, self.result.warnings = found.topic_matches, found.warnings

    async def records(self) -> AsyncIterator[RecordPortion]:
        """Yield the groups in the form that is sent, by SOW key or in the requested order.

        For a gateway, yield the state of each group instead.
        """
        await load_groups(self._groups, self._query)
        found = self._query.result
        self.result.topic_matches, self.result.matches = found.topic_matches, found.matches
        self.result.lag_seconds = found.lag_seconds
        if self._selection.merges:
            states = await in_turns(self._groups.records(), self._query.work)
            for start in range(0, len(states), TURN_RECORDS_MAX):
                yield RecordPortion(
                    self._name, [state for _, state in states[start : start + TURN_RECORDS_MAX]]
                )
                await wait_next_turn()
            return
        groups = await in_turns(self._groups.records(), self._query.work)
        groups = await groups_in_order(groups, self._selection, self._query.work)
        no_sowkey = self._selection.options.no_sowkey
        for start in range(0, len(groups), TURN_RECORDS_MAX):
            chunk = groups[start : start + TURN_RECORDS_MAX]
            written = [sow_record(None if no_sowkey else key, None, body, None) for key, body in chunk]
            if self._selection.options.rank:
                written = with_ranks(written, self._selection.skip_n + start)
            self.result.count(len(written), sum(map(len, written)), hash_of(key for key, _ in chunk))
            self._limits.check(self.result)
            yield RecordPortion(self._name, written)
            await wait_next_turn()

    async def explain(self) -> list[dict[str, Any]]:
        """Report the access path to the grouped records."""
        return await self._query.explain()


async def groups_in_order(
    groups: list[tuple[bytes, bytes]], selection: Selection, spend: Spend
) -> list[tuple[bytes, bytes]]:
    """Return the requested groups in the requested order; the given groups are in the order of SOW keys."""
    order = selection.order
    if order.terms:
        keys = ((order.key(orjson.loads(body), key), (key, body)) for key, body in groups)
        keyed = await in_turns(keys, spend)
        groups = [group for _, group in await sorted_in_turns(keyed)]
    return groups[selection.skip_n : selection.end]
