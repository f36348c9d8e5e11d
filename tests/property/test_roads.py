"""Every road of a query leads to the same records: those that a look at each body finds.

A world of two topics is changed and asked at random, also while indexes are being built; each answer is
compared with one over a plain dictionary of bodies, as they were at the query's instant.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple
from unittest.mock import patch

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from query_service.query import Limits, Query, Selection
from query_service.replica import Placed
from query_service.roads import HASH_INDEX, KEY, KEYS, MEMO_INDEX, SCAN
from query_service.state import State, TopicState
from sowline.bookmark import format_position
from sowline.change import Change
from sowline.errors import SowlineError
from sowline.filter import compile_filter
from sowline.filter.about import About
from sowline.key import key_text, partition_of, sow_key
from sowline.order import parse_order
from sowline.position import Position, before_the_log
from sowline.topics import Topics, parse_topics
from tests.property.test_index_roads import DOCUMENTS, FILTERS, LOOKUPS

PADS = 3
LIMITS = Limits(seconds_max=1)


# --- the world ---


class Record(NamedTuple):
    """What the model knows of a record."""

    body: bytes
    partition: int
    position: Position
    time: int
    correlation: str | None


Model = list[dict[bytes, Record]]
"""Of each topic its records by SOW key."""


class World:
    """Topics that are loaded and empty, and the same as plain dictionaries."""

    def __init__(self, topics: Topics, index_bytes_max: int) -> None:
        self.state = State(topics, ring_changes_max=10, index_bytes_max=index_bytes_max)
        self.topics: list[TopicState] = list(self.state.topics.values())
        self.model: Model = [{} for _ in self.topics]
        self._last = [[before_the_log()] * len(topic.partitions) for topic in self.topics]
        self._events = 0
        self.state.loaded(
            [(t.definition.changes, number) for t in self.topics for number in range(len(t.partitions))]
        )

    def change(self, number: int, text: str, is_delete: bool) -> None:
        """Let a body arrive, or the end of the record that has its key; nothing where it has no key."""
        definition, body = self.topics[number].definition, text.encode()
        try:
            key = key_text(orjson.loads(body), definition.key_paths)
        except SowlineError:
            return
        sow, partition = sow_key(definition.domain_prefix, key), partition_of(key, definition.partitions)
        if is_delete and sow not in self.model[number]:
            return
        self._events += 1
        last = self._last[number][partition]
        place = Position(self._events // 20, last.offset + 1, self._events % 2)
        correlation = f"c{self._events}" if self._events % 3 == 0 else None
        record = Record(body, partition, place, 1000 + self._events, correlation)
        old = self.model[number].get(sow)
        change = Change(
            sow,
            None if is_delete else body,
            old.body if old else None,
            place,
            last,
            "delete" if is_delete else "publish",
            record.time,
            correlation=correlation,
        )
        self._last[number][partition] = place
        if is_delete:
            del self.model[number][sow]
        else:
            self.model[number][sow] = record
        self.state.take({(definition.changes, partition): [Placed(self._events, change)]})

    def snapshot(self) -> Model:
        """All records as they are now."""
        return [dict(records) for records in self.model]


class Step(NamedTuple):
    """A body arrives, or a record ends."""

    topic: int
    body: str
    is_delete: bool


class Question(NamedTuple):
    """A query, and what happens while it runs."""

    topics: tuple[int, ...]
    filter: str
    order: str
    top_n: int | None
    skip_n: int
    keys: tuple[int, ...]
    """Numbers that choose SOW keys; none for all records."""
    during: tuple[Step, ...]


@dataclass(frozen=True)
class Answer:
    """What a query found."""

    records: list[bytes]
    stats: dict[str, int]
    hash: int


def chosen_keys(question: Question, model: Model) -> tuple[bytes, ...]:
    """The SOW keys that a question is about: some that are there, and one that is not."""
    known = sorted(key for number in question.topics for key in model[number])
    return tuple(known[at % len(known)] if known and at < 9 else b"%d" % at for at in question.keys)


def selection_of(question: Question, keys: tuple[bytes, ...]) -> Selection:
    """What is asked."""
    return Selection(
        filter=compile_filter(question.filter),
        order=parse_order(question.order),
        top_n=question.top_n,
        skip_n=question.skip_n if question.top_n is not None else 0,
        sow_keys=keys,
    )


def expected(topics: Sequence[TopicState], select: Selection, models: Model) -> Answer:
    """The answer, by a look at every body; in order of SOW keys where the order is free."""
    seen, found = 0, []
    for number, (topic, records) in enumerate(zip(topics, models, strict=True)):
        for key, record in records.items():
            if select.sow_keys and key not in select.sow_keys:
                continue
            seen += 1
            document = orjson.loads(record.body)
            about = About(
                sow_key=key.decode(),
                topic=topic.definition.name,
                size=len(record.body),
                updated=record.time / 1000,
                correlation=record.correlation,
            )
            if select.filter.matches_about(document, about):
                found.append((select.order.key(document, key), number, key, record))
    found.sort(key=lambda entry: entry[:2])
    returned = found[select.skip_n : select.end] if select.is_ordered else found
    written, hash = [], 0
    for _, number, key, record in returned:
        at = format_position(topics[number].definition.log, record.partition, record.position)
        written.append(b'{"sow_key":"%b","updated_at":"%b","data":%b}' % (key, at.encode(), record.body))
        hash ^= int.from_bytes(blake2b(key, digest_size=8).digest(), "big")
    return Answer(
        written if select.is_ordered else sorted(written),
        {
            "topic_matches": seen,
            "matches": len(found),
            "records_returned": len(returned),
            "records_deleted": 0,
        },
        hash,
    )


async def check(world: World, question: Question) -> None:
    """Ask, and compare the answer with that of the instant; explain it, too."""
    topics = [world.topics[number] for number in question.topics]
    select = selection_of(question, chosen_keys(question, world.model))
    query = Query(topics, select, LIMITS)
    await query.begin()
    models = [world.snapshot()[number] for number in question.topics]
    written = [record async for _, records in query.records() for record in records]
    got = Answer(
        written if select.is_ordered else sorted(written), dict(query.result.stats), query.result.hash
    )
    assert got == expected(topics, select, models)
    await check_explained(Query(topics, select, LIMITS), select)


async def check_explained(query: Query, select: Selection) -> None:
    """Each road's counts are in proportion to each other."""
    for part in await query.explained():
        roads = {KEYS} if select.sow_keys else {KEY, HASH_INDEX, MEMO_INDEX, SCAN}
        assert part["road"] in roads
        assert part["matches"] <= part["candidates"] <= part["records"]
        assert part["candidates"] - part["read"] <= part["matches"]
        assert ("index" in part) == (part["road"] in (KEY, HASH_INDEX, MEMO_INDEX))
        assert ("indexed" in part) == (part["road"] == MEMO_INDEX)


Script = list[Step | tuple[Question, ...]]
"""Bodies that arrive, and questions that are asked at once."""


async def run(world: World, script: Script) -> None:
    """Let all of it happen; changes that belong to a question happen one by one, in its pauses."""
    for step in script:
        if isinstance(step, Step):
            world.change(*step)
            continue
        asking = [asyncio.ensure_future(check(world, question)) for question in step]
        for change in (change for question in step for change in question.during):
            await asyncio.sleep(0)
            world.change(*change)
        if len(asking) > 2:
            # Whoever asks may lose interest at any time.
            asking.pop().cancel()
        await asyncio.gather(*asking)


# --- what happens in it ---

IDS = st.sampled_from([1, 2, 0, -1, True, False, "1", "01", "2.0", "-0", "true", "a", "ä\x00'", 10**17, ""])
BODIES = st.builds(
    lambda ids, document, pad, again: _body(ids, document, pad, again),
    st.fixed_dictionaries({"id": IDS}, optional={"k": IDS}),
    DOCUMENTS,
    st.integers(0, PADS),
    st.booleans(),
)


def _body(ids: dict[str, Any], document: dict[str, Any], pad: int, again: bool) -> str:
    """A body; some have blanks, and some a member twice, of which the last counts."""
    text = json.dumps(document | ids, ensure_ascii=again, separators=(",", ":"))
    first = '"a":"first",' if again and "a" in document else ""
    return "{" + first + " " * pad + text[1:]


KEY_TEXTS = st.sampled_from(["1", "01", "2", "2.0", "0", "-0", "true", "a", "ä\x00'", "100000000000000000"])
QUOTED = KEY_TEXTS.map(lambda text: "'" + text.replace("'", "\\'") + "'")
KEY_TERMS = st.one_of(
    st.builds("{} = {}".format, st.sampled_from(["/id", "/k"]), QUOTED),
    st.builds(
        lambda field, items: f"{field} IN ({', '.join(items)})",
        st.sampled_from(["/id", "/k"]),
        st.lists(QUOTED, min_size=1, max_size=4),
    ),
)
ABOUT_TERMS = st.sampled_from(
    [
        "MESSAGE_SIZE() > 40",
        "TOPIC_NAME() = 'one'",
        "LAST_UPDATED() > 1.005",
        "CORRELATION_ID() IS NOT NULL",
        "LENGTH(/b) < 3",
        "CONCAT(/a, 1) = '11'",
        "CONCAT(/a, TRUE) = '1true'",
        "/a BEGINS WITH (-0.0)",
        "/a BEGINS WITH (0)",
        "/a BEGINS WITH (0.0)",
        "[/d e] = /a",
    ]
)
CONDITIONS = st.one_of(FILTERS, LOOKUPS, KEY_TERMS, KEY_TERMS, ABOUT_TERMS)
TEXTS = st.one_of(
    st.just(""),
    CONDITIONS,
    st.lists(CONDITIONS, min_size=2, max_size=3).map(lambda terms: " AND ".join(f"({t})" for t in terms)),
    st.lists(KEY_TERMS, min_size=2, max_size=3).map(" AND ".join),
)
TERMS = st.builds(
    "{}{}{}".format,
    st.sampled_from(["/a", "/b", "/c/d", "/id", "/k", "[/d e]", "/no/such"]),
    st.sampled_from(["", " DESC"]),
    st.sampled_from(["", "", " TEXT"]),
)
ORDERS = st.just("") | st.lists(TERMS, min_size=1, max_size=3).map(", ".join)
NUMBER = st.integers(0, 11)
"""Chooses from a pool, which saves most of the drawing, and lets bodies and filters meet often."""

POOLS = st.fixed_dictionaries(
    {
        "bodies": st.lists(BODIES, min_size=4, max_size=10),
        "filters": st.lists(TEXTS, min_size=2, max_size=5),
        "orders": st.lists(ORDERS, min_size=1, max_size=3),
    }
)
CHANGES = st.tuples(st.sampled_from([0, 0, 0, 1]), NUMBER, st.sampled_from([False, False, True]))
QUESTIONS = st.tuples(
    st.sampled_from([(0,), (0,), (1,), (0, 1)]),
    NUMBER,
    NUMBER,
    st.none() | st.integers(0, 6),
    st.integers(0, 3),
    st.sampled_from([(), (), (), (0,), (3, 1, 4, 10)]),
    st.lists(CHANGES, max_size=6),
)
SCRIPTS = st.lists(
    st.one_of(
        st.lists(CHANGES, min_size=1, max_size=12),
        st.lists(QUESTIONS, min_size=1, max_size=3).map(tuple),
    ),
    min_size=2,
    max_size=8,
)


def _change(pool: dict[str, Any], topic: int, body: int, is_delete: bool) -> Step:
    return Step(topic, pool["bodies"][body % len(pool["bodies"])], is_delete)


def _question(pool: dict[str, Any], topics: Any, text: int, order: int, *others: Any) -> Question:
    filters, orders = pool["filters"], pool["orders"]
    during = tuple(_change(pool, *change) for change in others[-1])
    return Question(topics, filters[text % len(filters)], orders[order % len(orders)], *others[:-1], during)


def _script(pool: dict[str, Any], parts: list[Any]) -> Script:
    script: Script = []
    for part in parts:
        if isinstance(part, tuple):
            script.append(tuple(_question(pool, *drawn) for drawn in part))
        else:
            script += [_change(pool, *drawn) for drawn in part]
    return script


INDEXES = st.lists(st.sampled_from(["/a", "/b", "/c/d", "/id"]), max_size=2, unique=True)
HASH_INDEXES = st.lists(
    st.sampled_from([("/b",), ("/a", "/b"), ("/id",), ("/c/d",), ("/a[0]",)]), max_size=2, unique=True
)


def _topic(name: str, key: str, partitions: int, indexes: list[str], hashes: list[tuple[str, ...]]) -> str:
    declared = f"indexes: {json.dumps(indexes)}, hash_indexes: {json.dumps(hashes)}"
    return f"{{name: {name}, key: {key}, key_domain: d, partitions: {partitions}, {declared}}}"


ONE_TOPIC = st.tuples(
    st.sampled_from(["/id", "/id", "[/id, /k]", "[/k, /id]"]), st.integers(1, 3), INDEXES, HASH_INDEXES
)
TOPICS = st.builds(
    lambda one, two: parse_topics(f"topics: [{_topic('one', *one)}, {_topic('two', *two)}]"),
    ONE_TOPIC,
    ONE_TOPIC,
)

COLUMN = 12_000
"""Bytes of one index, and not of two."""


WORLDS = st.tuples(TOPICS, st.sampled_from([1 << 30, COLUMN, 0]), st.builds(_script, POOLS, SCRIPTS))
Drawn = tuple[Topics, int, Script]


def _happens(drawn: Drawn) -> None:
    topics, index_bytes_max, script = drawn

    async def live() -> None:
        await run(World(topics, index_bytes_max), script)

    asyncio.run(live())


@settings(max_examples=100)
@given(WORLDS)
def test_every_road_leads_to_the_same_records(drawn: Drawn) -> None:
    """Indexes are made at once, as small topics have them."""
    _happens(drawn)


@settings(max_examples=200)
@given(WORLDS)
def test_the_same_while_indexes_are_being_made(drawn: Drawn) -> None:
    """Builds take many steps, with changes, other queries and cancellations in between."""
    with (
        patch.multiple("query_service.indexes", CHUNK=3, AT_ONCE=4),
        patch("query_service.query.CHUNK", 2),
        patch("query_service.ordering.CHUNK", 2),
    ):
        _happens(drawn)
