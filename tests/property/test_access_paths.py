"""Every access path of a query leads to the same records: those that a look at each body finds.

A world of two topics is changed and asked at random, also while indexes are being built; each answer is
compared with one over a plain dictionary of bodies, as they were at the query's instant.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

import orjson
from hypothesis import given
from hypothesis import strategies as st

from sowline.changes.change import Change
from sowline.config.topics import Topics, parse_topics
from sowline.errors import SowlineError
from sowline.language.expressions.order import parse_order
from sowline.language.filter import compile_filter
from sowline.language.filter.metadata import Metadata
from sowline.model.bookmark import format_position
from sowline.model.key import key_text, partition_of, sow_key
from sowline.model.position import Position, before_the_log
from sowline.serving.result import QueryLimits
from sowline_query_service.index.access_path import HASH_INDEX, KEY, KEYS, MEMO_INDEX, SCAN
from sowline_query_service.query.query import Query
from sowline_query_service.query.selection import Selection
from sowline_query_service.replica.plain_run import EventAtOffset
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.topics.topic_state import TopicState
from tests.examples import examples
from tests.property.test_index_access_paths import DOCUMENTS, FILTERS, LOOKUPS
from tests.waiting import loop_turns

LIMITS = QueryLimits()


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
        self.state = ServedTopics(topics, ring_changes_max=10, index_bytes_max=index_bytes_max)
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
        sow, partition = (
            sow_key(definition.declared.domain_prefix, key),
            partition_of(key, definition.partitions),
        )
        if is_delete and sow not in self.model[number]:
            return
        self._events += 1
        last = self._last[number][partition]
        position = Position(self._events // 20, last.offset + 1, self._events % 2)
        correlation = f"c{self._events}" if self._events % 3 == 0 else None
        record = Record(body, partition, position, 1000 + self._events, correlation)
        old = self.model[number].get(sow)
        change = Change(
            sow,
            None if is_delete else body,
            old.body if old else None,
            position,
            last,
            "delete" if is_delete else "publish",
            record.time,
            correlation=correlation,
        )
        self._last[number][partition] = position
        if is_delete:
            del self.model[number][sow]
        else:
            self.model[number][sow] = record
        self.state.take({(definition.changes, partition): [EventAtOffset(self._events, change)]})

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
            about = Metadata(
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
    written = [record async for _, records, _ in query.records() for record in records]
    got = Answer(
        written if select.is_ordered else sorted(written), dict(query.result.counts), query.result.hash
    )
    assert got == expected(topics, select, models)
    await check_explained(Query(topics, select, LIMITS), select)


async def check_explained(query: Query, select: Selection) -> None:
    """Each access path's counts are in proportion to each other."""
    for part in await query.explain():
        access_paths = {KEYS} if select.sow_keys else {KEY, HASH_INDEX, MEMO_INDEX, SCAN}
        assert part["access_path"] in access_paths
        assert part["matches"] <= part["candidates"] <= part["records"]
        assert part["candidates"] - part["read"] <= part["matches"]
        assert ("index" in part) == (part["access_path"] in (KEY, HASH_INDEX, MEMO_INDEX))
        assert ("indexed" in part) == (part["access_path"] == MEMO_INDEX)


Script = list[Step | tuple[Question, ...]]
"""Bodies that arrive, and questions that are asked at once."""


async def run(world: World, script: Script, chance: Random) -> None:
    """Let all of it happen; changes that belong to a question happen one by one, in its pauses."""
    for step in script:
        if isinstance(step, Step):
            world.change(*step)
            continue
        asking = [asyncio.ensure_future(check(world, question)) for question in step]
        for change in (change for question in step for change in question.during):
            await loop_turns(chance.randrange(3))
            world.change(*change)
        if len(asking) > 2:
            # Anyone who asks may lose interest at any time.
            asking.pop(0).cancel()
        await asyncio.gather(*asking)


# --- what happens in it ---

KEYS_ASKED = ["1", "01", "2", "2.0", "0", "-0", "true", "false", "a", "ä\x00", "100000000000000000", "13"]
IDS = [*range(20), True, False, "1", "01", "2.0", "-0", "true", "a", "ä\x00", 10**17, -1]
VALUES = [
    1,
    2,
    "1",
    "a",
    "b",
    "",
    True,
    None,
    0.5,
    -0.0,
    2**60,
    "1152921504606846976",
    [1, "a"],
    [2],
    {"d": 1},
]

NEAR = st.dictionaries(st.sampled_from(["a", "a", "b", "c"]), st.sampled_from(VALUES), max_size=3)
BODIES = st.one_of(NEAR, NEAR, DOCUMENTS)

QUOTED = st.sampled_from(KEYS_ASKED).map(repr)
KEY_TERMS = st.one_of(
    st.builds("{} = {}".format, st.sampled_from(["/id", "/k"]), QUOTED),
    st.builds(
        lambda field, items: f"{field} IN ({', '.join(items)})",
        st.sampled_from(["/id", "/k"]),
        st.lists(QUOTED, min_size=1, max_size=4),
    ),
)
CONSTANTS = st.sampled_from(
    ["1", "'1'", "'1'", "'a'", "'a'", "'b'", "TRUE", "0", "0.5", "1152921504606846976", "NULL"]
)
NEAR_TERMS = st.one_of(
    st.builds(
        "{} {} {}".format,
        st.sampled_from(["/a", "/b", "/c", "/c/d"]),
        st.sampled_from(["=", "=", "!=", "<", ">="]),
        CONSTANTS,
    ),
    st.builds(
        "{} IN ({}, {})".format,
        st.sampled_from(["/a", "/b", "/c/d"]),
        CONSTANTS,
        st.sampled_from(["'1'", "2"]),
    ),
)
STRING_TERMS = st.builds(
    "{} = {}".format, st.sampled_from(["/a", "/a", "/b"]), st.sampled_from(["'1'", "'a'"])
)
ABOUT_TERMS = st.sampled_from(
    [
        "MESSAGE_SIZE() > 25",
        "TOPIC_NAME() = 'one'",
        "LAST_UPDATED() > 1.05",
        "CORRELATION_ID() IS NOT NULL",
        "LENGTH(/b) < 3",
        "CONCAT(/a, 1) = '11'",
        "CONCAT(/a, TRUE) = '1true'",
        "/a + 1 = 2",
    ]
)
CONDITIONS = st.one_of(NEAR_TERMS, STRING_TERMS, KEY_TERMS, ABOUT_TERMS, FILTERS | LOOKUPS)
TEXTS = st.one_of(
    st.just(""),
    CONDITIONS,
    NEAR_TERMS,
    STRING_TERMS,
    st.lists(CONDITIONS, min_size=2, max_size=3).map(lambda terms: " AND ".join(f"({t})" for t in terms)),
    st.lists(KEY_TERMS, min_size=2, max_size=3).map(" AND ".join),
)
TERMS = st.builds(
    "{}{}{}".format,
    st.sampled_from(["/a", "/b", "/c/d", "/id", "/k", "/no/such"]),
    st.sampled_from(["", " DESC"]),
    st.sampled_from(["", "", " TEXT"]),
)
ORDERS = st.just("") | st.lists(TERMS, min_size=1, max_size=2).map(", ".join)


class Pool(NamedTuple):
    """What bodies and questions are taken from: few of each, so that they meet often."""

    bodies: list[dict[str, Any]]
    filters: list[str]
    orders: list[str]


POOLS = st.builds(
    Pool,
    st.lists(BODIES, min_size=4, max_size=8),
    st.lists(TEXTS, min_size=3, max_size=6),
    st.lists(ORDERS, min_size=1, max_size=3),
)
PARTS = 8


def script_of(pool: Pool, chance: Random) -> Script:
    """Some changes and some questions, in turns; the first changes are many."""
    script: Script = [change_of(pool, chance, False) for _ in range(chance.randrange(40))]
    for _ in range(PARTS):
        script += [change_of(pool, chance) for _ in range(chance.randrange(6))]
        script.append(tuple(question_of(pool, chance) for _ in range(chance.choice([1, 1, 2, 3]))))
    return script


def change_of(pool: Pool, chance: Random, may_delete: bool = True) -> Step:
    """Some body arrives, or some record ends."""
    keys = {"id": chance.choice(IDS)} | ({"k": chance.choice(IDS)} if chance.random() < 0.8 else {})
    document = chance.choice(pool.bodies) | keys
    text = json.dumps(document, ensure_ascii=chance.random() < 0.5, separators=(",", ":"))
    # Some members stand there twice, and of these the last counts.
    first = '"a":"first",' * (chance.random() < 0.2 and "a" in document) + " " * chance.randrange(3)
    return Step(chance.choice([0, 0, 0, 1]), "{" + first + text[1:], may_delete and chance.random() < 0.3)


def question_of(pool: Pool, chance: Random) -> Question:
    """Some question."""
    return Question(
        topics=chance.choice([(0,), (0,), (1,), (0, 1)]),
        filter=chance.choice(pool.filters),
        order=chance.choice(pool.orders),
        top_n=chance.choice([None, None, 0, 1, 3, 6]),
        skip_n=chance.randrange(4),
        keys=chance.choice([(), (), (), (0,), (3, 1, 4, 10)]),
        during=tuple(change_of(pool, chance) for _ in range(chance.randrange(8))),
    )


INDEXES = st.lists(st.sampled_from(["/a", "/b", "/c/d", "/id"]), max_size=2, unique=True)
HASH_INDEXES = st.sampled_from(
    [[], [["/a"]], [["/a"], ["/b"]], [["/a", "/b"], ["/c/d"]], [["/id"], ["/a[0]"]], [["/b", "/a"], ["/a"]]]
)


def _topic(name: str, key: str, partitions: int, indexes: list[str], hashes: list[list[str]]) -> str:
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


WORLDS = st.tuples(TOPICS, st.sampled_from([1 << 30, 1 << 30, COLUMN, 0]), POOLS, st.integers(0, 2**32))
Drawn = tuple[Topics, int, Pool, int]


def _happens(drawn: Drawn) -> None:
    topics, index_bytes_max, pool, seed = drawn
    chance = Random(seed)

    async def live() -> None:
        await run(World(topics, index_bytes_max), script_of(pool, chance), chance)

    asyncio.run(live())


@examples(60)
@given(WORLDS)
def test_every_access_path_finds_the_same_records(drawn: Drawn) -> None:
    """Indexes are made at once, as small topics have them."""
    _happens(drawn)


@examples(120)
@given(WORLDS)
def test_the_same_while_indexes_are_being_made(drawn: Drawn) -> None:
    """Builds take many steps, with changes, other queries and cancellations in between."""
    with (
        patch.multiple("sowline_query_service.topics.topic_indexes", TURN_ROWS_MAX=3, AT_ONCE=4),
        patch("sowline_query_service.query.query.TURN_RECORDS_MAX", 2),
        patch("sowline.serving.cooperative.TURN_RECORDS_MAX", 2),
    ):
        _happens(drawn)
