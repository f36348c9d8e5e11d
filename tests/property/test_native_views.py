"""The native core computes views as Python does: the same states, and the same events of what they make."""

import json
from copy import deepcopy
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import structs

from sowline.changes.change import Change
from sowline.changes.partials import Partials, PartialState
from sowline.commands.command import PARTIALS
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topics import parse_topics
from sowline.errors import StartAgain
from sowline.language.groups import GroupStates
from sowline.model.bookmark import format_bookmark
from sowline.model.log_time import CREATE_TIME, LOG_APPEND_TIME
from sowline.model.position import Position
from sowline.native import panics
from sowline_materializer.core.views import GroupBodies
from sowline_views.core.joined_tables import JoinedEvent, JoinedTables, joined_table
from sowline_views.core.joins import JoinedStates
from sowline_views.core.native_groups import native_states
from sowline_views.core.states import GROUPS_MAX, StateChange, group_key, states_of
from tests.examples import examples
from tests.panics import panic
from tests.property.two_cores import apply_alike, log_records, native, partition_of, state_of
from tests.property.view_world import defined

HEADERS = [("sow.command", PARTIALS.encode())]
NUMBERS = st.one_of(
    st.integers(-5, 20),
    st.sampled_from([2**53 - 1, 2**53, 2**63 - 1, -(2**63), 2**64 - 1, 10**17, 10**18]),
)
VALUES = st.one_of(
    NUMBERS,
    NUMBERS,
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
    st.sampled_from(["", "7", "07", "1e3", "-", "2026-01-01", "2026", "x", "é", 'q"', "\n", "\\", "x" * 40]),
    st.text(max_size=3),
)
BODIES = st.fixed_dictionaries({}, optional={"g": VALUES, "h": VALUES, "q": VALUES, "p": VALUES})
SIMPLE = ["COUNT(1) AS /n", "SUM(/q) AS /sum", "AVG(/q) AS /mean", "MIN(/q) AS /least", "MAX(/p) AS /o/most"]
PROJECTIONS = st.one_of(
    st.lists(st.sampled_from([*SIMPLE, "ANY(/p) AS /any", "COUNT(/q) AS /q"]), min_size=1, unique=True),
    st.sampled_from(
        [
            ["SUM(/q) / COUNT(1) AS /ratio"],
            ["/q AS /last", "COUNT(1) AS /n"],
            ["COUNT_DISTINCT(/q) AS /kinds", "COUNT(1) AS /n"],
            ["STDDEV_POP(/q) AS /spread"],
            ["'constant' AS /c", "COUNT(1) AS /n"],
        ]
    ),
)
VIEWS = st.fixed_dictionaries(
    {"grouping": st.sampled_from([["/g"], ["/g", "/h"], ["/o/g"]]), "projection": PROJECTIONS},
    optional={
        "having": st.just("/n > 1"),
        "record_bytes_max": st.sampled_from([64, 100]),
        "delta": st.just(True),
    },
)
WRITES = st.tuples(st.integers(0, 1), st.integers(0, 3), st.none() | BODIES)
"""The source partition, the record in it, and its body; None deletes it."""

Message = tuple[Partials, bytes | None]
"""A message, and another text in its stead."""

NO_RECORDS = b'[["99","[1]",["[1]",-1,[1,[1,0,1,0,0,0,0],[1,1],[]],null]]]'
ODD = st.sampled_from(
    [
        NO_RECORDS,
        b"",
        b"{}",
        b"null",
        b'[["1","k",null]',
        b'[["1","k",null,1]]',
        b'[["1","k"]]',
        b'[["x","k",null]]',
        b'[[1,"k",null]]',
        b'[["99","[1]",["[1]",1,[1,[1,0,1,0,0,0,0]],null]]]',
        b'[["99","[1]",["[1]",1,[],null]]]',
        b'[["99","[1]",["[1]x]",1,[1],null]]]',
        b'[["99","[1]",["[\\"\\"]",1,[1],null]]]',
        b'[["99","[1]",["[1,2,3]",1,[1],null]]]',
        b'[["99","[1]",["[1]",1,[1],null,2]]]',
        b'[["99","[1]",["[1]",null,[1],null]]]',
        b'[["99","[1]",{}]]',
        b'[["99","[1]",7]]',
        b'[["0/99.1","\\ud83d\\ude00",null]]',
        b'[["99","\xff",null]]',
    ]
)


def messages_of(
    definition: TopicDefinition, written: list[tuple[int, int, Any]], together: int
) -> list[tuple[int, Partials]]:
    """Return a message for each run of so many writes to a source partition, with its states as of then."""
    view, positions = definition.view, [-1, -1]
    assert view is not None
    assert view.projected is not None
    groups = [
        GroupStates(view.name, view.grouping_paths, view.projected, groups_max=GROUPS_MAX) for _ in range(2)
    ]
    held: dict[tuple[int, int], Any] = {}
    made = [
        (source, Partials(definition.digest, source, "-1", "-1", is_snapshot=True)) for source in range(2)
    ]
    for start in range(0, len(written), together):
        states: dict[int, dict[str, PartialState]] = {}
        before = list(positions)
        for source, number, body in written[start : start + together]:
            positions[source] += 1
            changes = groups[source].change(
                b"%d" % number, held.get((source, number)), body, (positions[source], source, 0)
            )
            held[source, number] = body
            for change in changes:
                key = group_key(change.key)
                state = msgspec.Raw(b"null" if change.body is None else change.body)
                states.setdefault(source, {})[key] = PartialState(str(positions[source]), key, state)
        for source, mine in states.items():
            after, up_to = before[source], positions[source]
            taken = format_bookmark({"orders": {source: Position(0, up_to)}}) if up_to % 3 == 2 else ""
            message = Partials(
                definition.digest,
                source,
                str(after),
                str(up_to),
                list(mine.values()),
                ends=up_to % 5 != 4,
                taken=taken if up_to % 5 != 4 else "",
            )
            made.append((source, message))
    return made


@given(
    view=VIEWS,
    written=st.lists(WRITES, max_size=20),
    together=st.integers(1, 4),
    odd=st.lists(st.tuples(st.integers(0, 20), ODD), max_size=2),
    repeated=st.lists(st.integers(0, 20), max_size=2),
    cuts=st.lists(st.integers(0, 20), max_size=3),
    times=st.sampled_from([(LOG_APPEND_TIME, 1000), (CREATE_TIME, 5000)]),
    headers=st.sampled_from([HEADERS, HEADERS, HEADERS, [*HEADERS, ("traceparent", b"x")], [], None]),
)
@example(
    view={"grouping": ["/g"], "projection": SIMPLE},
    written=[(0, 1, {"g": "a", "q": 1}), (1, 1, {"g": "a", "q": 2, "p": "x"}), (0, 1, None)],
    together=1,
    odd=[(9, NO_RECORDS)],
    repeated=[0],
    cuts=[1],
    times=(LOG_APPEND_TIME, 1000),
    headers=HEADERS,
)
@examples(150)
def test_native_merges_as_python_does(
    view: dict[str, Any],
    written: list[tuple[int, int, Any]],
    together: int,
    odd: list[tuple[int, bytes]],
    repeated: list[int],
    cuts: list[int],
    times: tuple[int, int],
    headers: Any,
) -> None:
    """Whatever the states are, in whatever batches; also messages that come again, and texts that are no states."""
    if "having" in view and not any("/n" in field for field in view["projection"]):
        view = {name: value for name, value in view.items() if name != "having"}
    definition = defined(view, 2, 1)
    (one, disk), (other, other_disk) = partition_of(definition, native), partition_of(definition, None)
    values = [message.encode() for _, message in messages_of(definition, written, together)]
    for at, states in odd:
        text = b'{"definition":"%b","partition":0,"after":"-1","up_to":"99","states":%b}'
        values.insert(at, text % (definition.digest.encode(), states))
    values += [values[at] for at in repeated if at < len(values)]
    time_type, time = times
    records = [(offset, time, None, value, headers, time_type) for offset, value in enumerate(values)]
    bounds = [0, *sorted(min(cut, len(records)) for cut in cuts), len(records)]
    end = 0
    for start, stop in pairwise(bounds):
        end += len(apply_alike(one, other, records[start:stop], end).events)
    assert one.core == "native"
    assert state_of(disk) == state_of(other_disk)


@pytest.mark.parametrize("view", [{"grouping": ["/g"], "projection": SIMPLE}, {"filter": "/q > 1"}])
@pytest.mark.parametrize("partitions", [1, 3])
def test_other_commands_in_the_log_of_a_view_are_refused(view: dict[str, Any], partitions: int) -> None:
    """A publish, a delta, a delete and an expiry of a record that the view may have."""
    definition = defined(view, 2, partitions)
    (one, _), (other, _) = partition_of(definition, native), partition_of(definition, None)
    publisher = [("sow.publisher", b"p"), ("sow.sequence", b"1")]
    sent: list[tuple[Any, ...]] = [
        (b'["a"]', b'{"g":"a","n":9}', None),
        (b'["a"]', b'{"n":1}', [("sow.command", b"delta_publish")]),
        (b'["a"]', None, None),
        (b"7", b"{}", publisher),
        (b"7", b"{}", publisher),
        (b"7", None, [("sow.command", b"expire"), ("sow.guard", b"3")]),
    ]
    records = [(offset, 1000, key, value, headers) for offset, (key, value, headers) in enumerate(sent)]
    step = apply_alike(one, other, records, 0).step
    assert [letter.reason for letter in step.dead] == ["view"] * len(sent)
    assert not step.changes


@pytest.mark.parametrize(
    ("partition", "up_to"),
    [(-1, "5"), (1 << 40, "5"), (0, "9999999999999999990"), (0, "9999999990/1")],
)
def test_numbers_beyond_the_native_core_are_pythons(partition: int, up_to: str) -> None:
    """Such a message has the same effect, and the next one too."""
    definition = defined({"grouping": ["/g"], "projection": SIMPLE}, 2, 1)
    (one, _), (other, _) = partition_of(definition, native), partition_of(definition, None)
    later = "9999999999/2" if "/" in up_to else "9999999999999999999"
    snapshot = Partials(definition.digest, partition, "-1", up_to, is_snapshot=True)
    messages = [snapshot, Partials(definition.digest, partition, up_to, later)]
    records = [(offset, 1000, None, one.encode(), HEADERS) for offset, one in enumerate(messages)]
    prepared = apply_alike(one, other, records, 0)
    assert prepared.failed is None
    assert not prepared.step.dead


@pytest.mark.parametrize("delta", [False, True])
def test_the_states_of_simple_views_are_merged_natively(delta: bool) -> None:
    """Python computes no record of them."""
    definition = defined({"grouping": ["/g"], "projection": SIMPLE, "delta": delta}, 2, 1)
    bodies = [{"g": "a", "q": 1, "p": "x"}, {"g": "b", "q": -3, "p": 5}, {"g": None, "q": 2**40}]
    written = [(number % 2, number, body) for number, body in enumerate(bodies)]
    messages = [message.encode() for _, message in messages_of(definition, written, 1)]
    begun, messages = messages[:2], messages[2:]
    partition, _ = partition_of(definition, native)
    snapshots = [(offset, 1000, None, value, HEADERS) for offset, value in enumerate(begun)]
    partition.commit(partition.prepare(log_records(snapshots), 100), 2)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sowline_materializer.core.views.read_partials", panic)
        records = [(offset, 1000, None, value, HEADERS) for offset, value in enumerate(messages, 2)]
        prepared = partition.prepare(log_records(records), 100)
    assert [orjson.loads(change.body or b"") for change in prepared.step.changes] == [
        {"g": "a", "n": 1, "sum": 1, "mean": 1.0, "least": 1, "o": {"most": "x"}},
        {"g": "b", "n": 1, "sum": -3, "mean": -3.0, "least": -3, "o": {"most": 5}},
        {"g": None, "n": 1, "sum": 2**40, "mean": 2.0**40, "least": 2**40, "o": {"most": None}},
    ]


@pytest.mark.parametrize(
    ("projection", "is_plain"),
    [(SIMPLE, True), (["SUM(/q) + 1 AS /more"], False), (["/q AS /last", "COUNT(1) AS /n"], False)],
)
def test_what_a_template_can_write(projection: list[str], is_plain: bool) -> None:
    """Each field is a value that is grouped by, or the result of one simple aggregate."""
    view = defined({"grouping": ["/g"], "projection": projection}, 1, 1).view
    assert view is not None
    assert (GroupBodies(view).template is not None) is is_plain


FIELDS = st.sampled_from(["a", "b", "open", "", "7", "x", None, 1, 2, 0, -0.0, 1.0, True, [1, "a"], {"a": 1}])
NESTED = st.dictionaries(st.sampled_from("ab"), FIELDS | VALUES, max_size=2) | FIELDS
RECORDS = st.fixed_dictionaries(
    {}, optional={"g": FIELDS, "q": VALUES, "s": FIELDS, "o": NESTED, "c": FIELDS, "home": FIELDS}
)


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """Draw the text of a record, with spaces, escapes and names that come again."""
    fields = list(draw(RECORDS).items())
    if draw(st.integers(0, 9)) == 0:
        fields += draw(st.lists(st.sampled_from(fields), max_size=2)) if fields else []
    is_ascii, space = draw(st.booleans()), draw(st.sampled_from(["", "", " "]))
    parts = [
        f"{json.dumps(name)}:{space}{json.dumps(value, ensure_ascii=is_ascii)}" for name, value in fields
    ]
    return ("{" + f",{space}".join(parts) + "}").encode()


GROUPED = st.fixed_dictionaries(
    {
        "grouping": st.sampled_from([["/g"], ["/g", "/o/a"], ["/o/a/b"], ["/o"]]),
        "projection": st.lists(
            st.sampled_from(
                [
                    *SIMPLE,
                    "SUM(/o/a) AS /deep",
                    "MAX(/q * 2) AS /twice",
                    "MIN(1.5) AS /half",
                    "COUNT(/o) AS /objects",
                    "COUNT_DISTINCT(/q) AS /kinds",
                    "STDDEV_POP(/q) AS /spread",
                    "GROUP_CONCAT(/q) AS /all",
                    "SUM(/q) / COUNT(1) AS /ratio",
                ]
            ),
            min_size=1,
            max_size=4,
            unique=True,
        ),
    },
    optional={
        "filter": st.sampled_from(
            [
                "/s IN ('open', 'x')",
                "/s = 'open'",
                "'a' = /s AND /g IN ('a', 'b')",
                "/s IN ('7', 'x')",
                "/s = 1",
                "/q > 3",
                "/o/a = 'a'",
            ]
        )
    },
)


def change_of(number: int, offset: int, body: bytes | None, held: dict[int, bytes]) -> Change | None:
    """Return a change of a record; None if there is nothing to delete."""
    previous = held.pop(number, None)
    if body is None and previous is None:
        return None
    if body is not None:
        held[number] = body
    position = Position(0, offset)
    return Change(b"%d" % number, body, previous, position, position, "publish", 1000)


@given(
    view=GROUPED,
    loaded=st.lists(texts(), max_size=4),
    written=st.lists(st.tuples(st.integers(0, 5), st.none() | texts()), max_size=25),
)
@examples(200)
def test_native_groups_are_pythons(
    view: dict[str, Any], loaded: list[bytes], written: list[tuple[int, bytes | None]]
) -> None:
    """Records are loaded, come, change, move to other groups and go, whatever is in them."""
    definition = defined(view, 1, 1).view
    assert definition is not None
    mine, expected = native_states(definition, 0, native), states_of(definition, 0)
    held: dict[int, bytes] = {}
    changes = [change_of(number, number, body, held) for number, body in enumerate(loaded)]
    for states in (mine, expected):
        states.load(one for one in changes if one is not None)
    assert list(mine.take_loaded()) == list(expected.take_loaded())
    for offset, (number, body) in enumerate(written, 10):
        if (change := change_of(number, offset, body, held)) is not None:
            if offset == 15:
                mine = deepcopy(mine)
            assert mine.change(change) == expected.change(change)


JOINED_TOPICS = """
topics:
  - {name: orders, key: /id}
  - {name: homes, key: /id}
  - {name: desks, key: [/a, /b/c]}
views:
  - name: view
    from: orders
    join:
      - {topic: homes, on: /q = /id, as: home, kind: KIND}
      - {topic: desks, on: /o/a = /b/c AND /g = /a, as: desk}
    filter: "/s IN ('open', 'a')"
    grouping: [/g, /home/o/a]
    projection: [COUNT(1) AS /n, SUM(/q) AS /sum, MAX(/home/q) AS /most, MIN(/desk/q) AS /least]
"""


@given(
    kind=st.sampled_from(["left", "inner"]),
    steps=st.lists(
        st.tuples(
            st.sampled_from(["orders", "orders", "homes", "desks"]), st.integers(0, 3), st.none() | texts()
        ),
        max_size=25,
    ),
)
@examples(150)
def test_native_joins_are_pythons(kind: str, steps: list[tuple[str, int, bytes | None]]) -> None:
    """Records of the source and of joined topics come, change and go."""
    topics = parse_topics(JOINED_TOPICS.replace("KIND", kind))
    view = topics.named("view").view
    assert view is not None

    def joined(module: Any) -> tuple[JoinedTables, JoinedStates]:
        tables = JoinedTables([joined_table(join, topics.named(join.topic)) for join in view.joins])
        return tables, JoinedStates(tables, native_states(view, 0, module, tables.all))

    both = joined(native), joined(None)
    held: dict[str, dict[int, bytes]] = {"orders": {}, "homes": {}, "desks": {}}
    keys = {
        "homes": [str(number) for number in range(4)],
        "desks": ['["a","b"]', '["a","a"]', '["1","1"]', '["b","x"]'],
    }
    for offset, (name, number, body) in enumerate(steps):
        change = change_of(number, offset, body, held[name])
        if change is None:
            continue
        made = []
        for tables, states in both:
            if name == "orders":
                made.append(list(states.change(change)))
                continue
            topic = topics.named(name)
            named = structs.replace(change, sow_key=topic.key_rule.sow_key(keys[name][number]))
            event = JoinedEvent(topic.log, 0, change.position, named)
            taken_out = states.take_out(event, states.concerned(event))
            tables.put(event)
            made.append(list(states.take_in(event, taken_out)))
        assert made[0] == made[1]


def test_a_panic_leaves_the_view_to_python() -> None:
    """The runner starts again, and the service then has no native core."""
    definition = defined({"grouping": ["/g"], "projection": SIMPLE}, 1, 1).view
    assert definition is not None
    states = native_states(definition, 0, SimpleNamespace(Groups=lambda rule: SimpleNamespace(change=panic)))
    change = change_of(1, 1, b"{}", {})
    assert change is not None
    before = panics()
    with pytest.raises(StartAgain, match="native core failed"):
        states.change(change)
    assert panics() == before + 1


def test_plain_records_are_read_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python reads none of them, with a join or without one."""
    topics = parse_topics(JOINED_TOPICS.replace("KIND", "left"))
    view = topics.named("view").view
    assert view is not None
    tables = JoinedTables([joined_table(join, topics.named(join.topic)) for join in view.joins])
    states = JoinedStates(tables, native_states(view, 0, native, tables.all))
    monkeypatch.setattr("sowline_views.core.joins.orjson.loads", panic)
    change = change_of(1, 1, b'{"g":"a","o":{"a":"b"},"s":"open","q":5}', {})
    assert change is not None
    (made,) = states.change(change)
    assert made == StateChange('["a",null]', b'["[\\"a\\",null]",1,[1,[1,0,5,0,0,0,0],[],[]],null]')
