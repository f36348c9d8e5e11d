"""A query at a past time finds what a query made then found: whatever has changed since, also after a restart."""

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest.mock import patch

import orjson
from hypothesis import given
from hypothesis import strategies as st

from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.language.expressions.order import parse_order
from sowline.language.filter import compile_filter
from sowline.model.bookmark import Positions, format_bookmark
from sowline.model.bookmark_range import parse_bookmark_range
from sowline.model.key import sow_key
from sowline.serving.result import QueryLimits
from sowline.wire.options import parse_options
from sowline.wire.request import Sow
from sowline_query_service.context import ServiceContext
from sowline_query_service.live.dispatcher import Dispatcher
from sowline_query_service.query import past
from sowline_query_service.query import read_request as asking
from sowline_query_service.query.grouping import GroupedQuery
from sowline_query_service.query.query import Query
from sowline_query_service.query.selection import Selection
from sowline_query_service.subscriptions.query_at_bookmark import query_at
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_state import TopicState
from tests.examples import examples
from tests.property.past_topics import FILLED, KEYS, LATER, PARTITIONS, STEPS, Step, World, loaded

LIMITS = QueryLimits()

FILTERS = [
    "",
    "/n > 1",
    "/n + 0 > 1",
    "/g = 'x'",
    "/id = '0-1'",
    "/id IN ('0-1', '1-2') AND /n >= 0",
    "/g IS NULL",
]
ORDERS = ["", "/n", "/n DESC, /g", "/g TEXT"]
PAGES: list[dict[str, int]] = [{}, {"top_n": 1}, {"top_n": 2, "skip_n": 1}, {"top_n": 0}]


class Asked(NamedTuple):
    """A query at so many ms before or after the newest time."""

    ago: int
    filter: str
    order: str
    page: dict[str, int]
    keys: tuple[int, ...]
    grouped: bool


ASKED = st.builds(
    Asked,
    st.integers(-5, 60),
    st.sampled_from(FILTERS),
    st.sampled_from(ORDERS),
    st.sampled_from(PAGES),
    st.lists(st.integers(0, KEYS - 1), max_size=2).map(tuple),
    st.booleans(),
)


def query_of(topic: TopicState, asked: Asked, at: int | None, *, exact: bool = True) -> Query | GroupedQuery:
    """Return the query that is asked for; `exact` where also that is asked which a restart may forget."""
    if asked.grouped:
        latest = ", /id AS /latest" if exact else ""
        options = (
            f"grouping=[/g],projection=[/g,COUNT(1) AS /c,SUM(/n) AS /s,GROUP_CONCAT(/id) AS /ids{latest}]"
        )
    else:
        options = "timestamp"
    selection = Selection(
        compile_filter(asked.filter),
        parse_options(options),
        parse_order(asked.order),
        sow_keys=tuple(sow_key(b"t\0", f"{n % PARTITIONS}-{n}") for n in asked.keys),
        **asked.page,  # type: ignore[arg-type]
    )
    return (
        GroupedQuery(topic, selection, LIMITS, at) if asked.grouped else Query([topic], selection, LIMITS, at)
    )


class Answer(NamedTuple):
    """What a query has found: its records, sorted where no order was asked for, and what it counted."""

    records: list[dict[str, Any]]
    stats: dict[str, int]
    hash: int

    @classmethod
    async def of(cls, query: Query | GroupedQuery, asked: Asked) -> "Answer":
        """Run the query to its end."""
        found = [orjson.loads(record) async for _, records, _ in query.records() for record in records]
        if not (asked.order or asked.page or asked.grouped):
            found.sort(key=lambda record: str(record["sow_key"]))
        return cls(found, query.result.counts, query.result.hash)


async def expected(world: World, asked: Asked, at: int, *, exact: bool) -> Answer:
    """Return the answer of a service that was never told of anything later."""
    then = ServedTopics(parse_topics("topics: [{name: t, key: /id}]"), 1)
    topic = then.topics["t"]
    for key, held in world.records(at).items():
        topic.rows.put(key, *held)
    for partition in topic.partitions.values():
        partition.loaded()
    query = query_of(topic, asked, None, exact=exact)
    await query.begin()
    return await Answer.of(query, asked)


async def has_begun(query: Query | GroupedQuery, reason: str = "history expired") -> bool:
    """Let a query begin; tell whether it is not of what can't be told any more, for this reason."""
    try:
        await query.begin()
    except SowlineError as error:
        if error.reason != reason:
            raise
        return False
    return True


def check_positions(world: World, at: int, positions: Positions) -> None:
    """Anyone who follows from there misses nothing, and repeats nothing."""
    for number, log in enumerate(world.logs):
        reached = [moment for moment in log.moments if moment.position <= positions[number]]
        assert reached[-1].last_change == log.at(world.rounded(at)).last_change


async def check(
    world: World, asked: Asked, at: int, query: Query | GroupedQuery, *, exact: bool = True
) -> None:
    """Compare what a query that has begun finds with what was there."""
    check_positions(world, at, query.positions["t"])
    wanted, found = await expected(world, asked, at, exact=exact), await Answer.of(query, asked)
    if not exact:
        for record, was in zip(found.records, wanted.records, strict=True):
            for name in was.keys() - record.keys() if not asked.grouped else ():
                assert name in ("updated_at", "timestamp")
                del was[name]
    assert found == wanted


@examples(100)
@given(
    st.integers(1, 60),
    st.sampled_from([0, 1, 2, 5, 30]),
    st.lists(STEPS, max_size=12),
    st.lists(STEPS, max_size=12),
    st.lists(ASKED, min_size=1, max_size=4),
    st.sampled_from([-1, 3, past.AT_ONCE]),
)
def test_the_past_is_what_was(
    window: int,
    granularity: int,
    before: list[Step],
    after: list[Step],
    asked: list[Asked],
    at_once: int,
) -> None:
    """A query at a time within the window is answered as then; what comes after its instant does not matter."""

    async def run() -> None:
        world = World(max(window, granularity), granularity)
        state = await loaded(world.topics, [[] for _ in world.logs], 1)
        world.apply([*FILLED, *before], state)
        topic = state.topics["t"]
        begun = []
        for one in asked:
            at = max(0, world.time - one.ago)
            query = query_of(topic, one, at)
            if await has_begun(query):
                begun.append((one, at, query))
            else:
                assert at < world.time - world.window
        world.apply([step._replace(later=step.later + LATER) for step in after], state)
        for one, at, query in begun:
            await check(world, one, at, query)

    with patch.object(past, "AT_ONCE", at_once):
        asyncio.run(run())


@examples(100)
@given(
    st.integers(1, 60),
    st.sampled_from([0, 1, 2, 5, 30]),
    st.lists(STEPS, max_size=15),
    st.lists(st.integers(0, 100), max_size=2),
    st.lists(st.integers(0, 100), min_size=PARTITIONS, max_size=PARTITIONS),
    st.lists(STEPS, max_size=4),
    st.integers(1, 5),
    st.lists(ASKED, min_size=1, max_size=4),
)
def test_a_restart_tells_the_same_or_nothing(
    window: int,
    granularity: int,
    steps: list[Step],
    stale_keys: list[int],
    compacted: list[int],
    after: list[Step],
    batch: int,
    asked: list[Asked],
) -> None:
    """What has loaded a compacted changes topic answers as what was there all along, from where on it can."""

    async def run() -> None:
        world = World(max(window, granularity), granularity)
        world.apply([*FILLED, *steps])
        for at in stale_keys:
            log = world.logs[at % PARTITIONS]
            if log.written:
                log.mark_stale(at % len(log.written))
        kept = [
            log.compacted(until % (len(log.written) + 1))
            for log, until in zip(world.logs, compacted, strict=True)
        ]
        state = await loaded(world.topics, kept, batch)
        world.apply(after, state)
        for one in asked:
            at = max(0, world.time - one.ago)
            query = query_of(state.topics["t"], one, at, exact=False)
            if await has_begun(query):
                await check(world, one, at, query, exact=False)
            else:
                assert at < max(world.time - world.window, world.rounded_up(world.tellable_since(kept)))

    asyncio.run(run())


def nothing_kept(*asked: object) -> Iterator[list[Any]]:
    """Stand in for a changes topic of which nothing is left."""
    yield from ()


@examples(100)
@given(
    st.lists(STEPS, max_size=12),
    st.lists(STEPS, max_size=12),
    st.lists(STEPS, max_size=4),
    st.lists(ASKED, min_size=1, max_size=4),
    st.sampled_from([3, 1000]),
    st.sampled_from([-1, past.AT_ONCE]),
)
def test_a_position_is_what_was_there(
    before: list[Step], after: list[Step], later: list[Step], asked: list[Asked], ring: int, at_once: int
) -> None:
    """A query at a bookmark is answered as one that was made there, or it has expired: with history or without."""

    async def run() -> None:
        world = World(1, 0)
        state = ServedTopics(world.topics, ring_changes_max=ring)
        state.loaded([("t.changes", number) for number in range(PARTITIONS)])
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
        world.apply([*FILLED, *before], state)
        marks = [log.moments[-1] for log in world.logs]
        bookmark = format_bookmark({"t": {number: mark.position for number, mark in enumerate(marks)}})
        world.apply(after, state)
        topic, context = state.topics["t"], ServiceContext(state, Dispatcher(), {}, LIMITS)
        begun = []
        for one in asked:
            selection = query_of(topic, one, None, exact=False)._selection
            query = query_at(
                context,
                Sow(topic="t", bookmark=bookmark, bookmark_range=parse_bookmark_range(bookmark)),
                asking.ReadRequest([topic], selection),
            )
            if await has_begun(query, "bookmark_expired"):
                assert query.bookmark == bookmark
                begun.append((one, query))
            else:
                assert ring == 3
        world.apply(later, state)
        for one, query in begun:
            then = ServedTopics(parse_topics("topics: [{name: t, key: /id}]"), 1).topics["t"]
            for mark in marks:
                for key, held in mark.records.items():
                    then.rows.put(key, *held)
            made_then = query_of(then, one, None, exact=False)
            await made_then.begin()
            wanted, found = await Answer.of(made_then, one), await Answer.of(query, one)
            for record, was in zip(found.records, wanted.records, strict=True):
                for name in was.keys() - record.keys():
                    assert name in ("updated_at", "timestamp")
                    del was[name]
            assert found == wanted

    with (
        patch.object(past, "AT_ONCE", at_once),
        patch("sowline_query_service.subscriptions.catch_up.read_range", nothing_kept),
    ):
        asyncio.run(run())
