"""The native core makes the messages that Python makes, and leaves the changes that it does not know to Python."""

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.changes.change import Change
from sowline.config.topic_definition import define_topic
from sowline.config.topics import parse_topics
from sowline.language.emodb.writes import Writes
from sowline.language.filter import Filter, compile_filter
from sowline.model.position import Position
from sowline.model.select import parse_select
from sowline.native import share
from sowline.subscriptions.engine.deliver import MessageTerms, deliver
from sowline.subscriptions.engine.delivery import Deltas, Form
from sowline.subscriptions.engine.matching import LiveSubscriptions
from sowline.subscriptions.engine.plan import DeliveryPlan
from sowline.subscriptions.engine.shown import as_sent
from sowline.subscriptions.engine.subscription import ChangeView, Delivery, Subscription
from tests.examples import examples

native: Any = pytest.importorskip("sowline_native")

TOPIC = define_topic(name="orders", key=("/id",))
CONFLATED = parse_topics(
    "topics: [{name: orders, key: /id}]\nconflated: [{name: slow, from: orders, interval: 1s}]"
).topics[-1]
LAST = Change(b"1", b'{"id":1,"a":1,"b":2}', None, Position(0, 1), Position(0, 0), "publish", 1)
USUAL_VALUES = ["1", "2", '"x"', '"1"', '{"b":1}']
ODD_VALUES = [
    *("1.0", "-0", "2.5", "1e0", "9007199254740993", "1e99", "true", "null", "18446744073709551615"),
    *('"+1.0"', '"1."', '".5"', '"\\u0078"', '"x\\n"', '""', '"-"', '"1e"', '"é"', '"100000000000000000000"'),
    *("[]", "[1]", '[1,"x"]', "{}", '{"b":"x","c":2}', '[{"b":1}]'),
]
USUAL_FILTERS = ["", "/a = 1", "/b = 2", "/a = 1 AND /b = 2", "/a >= 1", "/a/b = 1"]
ODD_FILTERS = [
    *("/a = '1'", "/a = 'x'", "/a IN (1, 'x', 2.5)", "/a >= 1 AND /a < 2.5", "/a/b = 'x' AND /b > 0"),
    *("/b < 2", "/a = 'é'", "/a = 9007199254740993", "/a BETWEEN 1 AND 2", "/a = 100000000000000000000"),
    *("/a = TRUE", "/a = NULL", "/a = 1 AND /a = 2", "1 = 1", "/b = 1 AND /a IN ('x')", "/a = 0.5"),
]
PYTHONS_FILTERS = [
    *(
        "/a LIKE 'x'",
        "/a = 1 OR /b = 2",
        "/a[0] = 1",
        "NOT /a = 1",
        "/a = /b",
        "/b != 1",
        "/a = 1 AND /b != 2",
    ),
    *(
        "/a >= 1 AND /b LIKE 'x'",
        "/a[0] = 1 AND /b = 2",
        "/a IS NULL",
        "SOW_KEY() = '1'",
        "/a = 1 AND /b[0] > 1",
    ),
]
USUAL_FORMS = [
    Form(),
    Form(delta=True),
    Form(delta=True, no_empties=True),
    Form(parse_select("[-/,+/id,+/a]")),
]
SELECTS = [None, *map(parse_select, ("[-/,+/id]", "[-/a]", "[-/]", "[+/]", "[-/a/b]", "[-/,+/none]"))]


def mostly(usual: Any, odd: Any) -> Any:
    """Return a strategy that draws usual things three times of four."""
    return st.sampled_from([usual, usual, usual, odd]).flatmap(st.sampled_from)


@dataclass(eq=False)
class Item:
    """A live subscription."""

    engine: Subscription
    terms: MessageTerms
    entitlement: Filter | None
    is_plain: bool = True

    @property
    def is_restricted(self) -> bool:
        """Whether its user may see only some of the records."""
        return self.entitlement is not None


@st.composite
def items(draw: st.DrawFn) -> Item:
    """Draw a subscription of one of a few connections."""
    oof, no_redundant = draw(st.tuples(st.booleans(), mostly([False], [True])))
    odd_form = st.builds(
        Form,
        st.sampled_from(SELECTS),
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.booleans(),
        st.sampled_from([False] * 4 + [True]),
    )
    form = draw(mostly(USUAL_FORMS, [None])) or draw(odd_form)
    connection = draw(st.sampled_from("cdefg"))
    filters = draw(mostly([USUAL_FILTERS, ODD_FILTERS], [PYTHONS_FILTERS, USUAL_FILTERS]))
    return Item(
        Subscription(compile_filter(draw(st.sampled_from(filters))), oof, form.delta, no_redundant),
        MessageTerms.of(
            connection,
            draw(st.sampled_from(["s", "t", 'é"'])),
            form,
            shares=connection == "g",
        ),
        compile_filter("/b = 1") if draw(mostly([False], [True])) else None,
    )


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Draw a record."""
    names = draw(st.sampled_from(["a", "ab", "ab", "ab", "ba", "aab", "abé", ""]))
    members = ['"id":1', *(f'"{name}":{draw(mostly(USUAL_VALUES, ODD_VALUES))}' for name in names)]
    separator = draw(st.sampled_from([",", ",", " , "]))
    return f"{draw(st.sampled_from(['', '', ' ']))}{{{separator.join(members)}}}".encode()


@st.composite
def changes(draw: st.DrawFn) -> Change:
    """Draw a change that services meet: of a record, a document, or a group."""
    body, previous = draw(bodies()), draw(bodies())
    body, previous = draw(mostly([(body, previous)], [(None, previous), (body, None), (body, body)]))
    op = draw(st.sampled_from(["publish", "publish", "delta_publish", "partials"]))
    if body is None:
        op = "delete" if op == "publish" else op
    position = Position(
        draw(st.sampled_from([0, 0, 3, 2**31])), draw(st.integers(0, 2**40)), draw(st.integers(0, 2))
    )
    return Change(
        draw(st.sampled_from([b"1", b"1", 'a"é'.encode(), b""])),
        body,
        previous,
        position,
        position._replace(offset=position.offset - 1),
        op,
        draw(st.integers(0, 253_402_300_799_999) | st.sampled_from([-(10**15), 10**15, -1])),
        reason=draw(st.sampled_from([None, None, "expired", 'odd"'])) if body is None else None,
        correlation=draw(st.sampled_from([None, None, "c", 'c"\n\x7fé'])),
        writes=Writes(1, "s", 1, 1, 1, redundant=draw(st.booleans()))
        if draw(st.sampled_from([False] * 4 + [True]))
        else None,
    )


Sent = dict[str, list[tuple[bytes, tuple[str, ...]]]]


def by_python(live: LiveSubscriptions[Item], given: list[Change], topic: Any) -> tuple[Sent, set[Item]]:
    """Return the messages of changes by connection, and who gets one, as Python makes them one by one."""
    sent: Sent = {}
    everybody: set[Item] = set()
    for change in given:
        found = [
            (item, as_sent(delivery, item.entitlement, is_conflated=topic.is_conflated))
            for item, delivery in live.on_change(ChangeView(change))
        ]
        put(sent, everybody, topic, change, found)
    return sent, everybody


def put(
    sent: Sent, everybody: set[Item], topic: Any, change: Change, found: list[tuple[Item, Delivery]]
) -> None:
    """Add the messages of one change."""
    outgoing, reached = deliver(topic, 3, change, found, Deltas(topic.key_fields))
    everybody.update(reached)
    for connection, message, sids in outgoing:
        sent.setdefault(connection, []).append((message, sids))


def by_plan(plan: DeliveryPlan[Item], given: list[Change], topic: Any) -> tuple[Sent, set[Item]]:
    """Return the same, as a query service does it, with the native core."""
    sent: Sent = {}
    everybody: set[Item] = set()
    seen = [ChangeView(change) for change in given]

    def natively(start: int) -> int:
        end, parts, reached = plan.deliver(3, given, start, seen.__getitem__)
        everybody.update(reached)
        for connection, messages, sids in parts:
            sent.setdefault(connection, []).extend(zip(messages, sids, strict=True))
        return end

    def one_by_one(deliveries: Any, start: int, stop: int) -> None:
        for change in given[start:stop]:
            found = [
                (item, as_sent(delivery, item.entitlement, is_conflated=topic.is_conflated))
                for item, delivery in deliveries(ChangeView(change))
            ]
            put(sent, everybody, topic, change, found)

    if plan.has_native:
        share(len(given), natively, lambda start, stop: one_by_one(plan.left_by_native, start, stop))
        one_by_one(plan.to_others, 0, len(given))
    else:
        one_by_one(plan.on_change, 0, len(given))
    return sent, everybody


steps = st.lists(
    items() | items() | st.lists(changes(), min_size=1, max_size=5) | st.integers(0, 9), max_size=14
)


@examples(600)
@given(steps, st.sampled_from([TOPIC, CONFLATED]))
def test_the_native_core_makes_what_python_makes(steps: list[Any], topic: Any) -> None:
    """Each connection gets the same bytes in the same order, while subscriptions come and go."""
    plan: DeliveryPlan[Item] = DeliveryPlan(topic, native)
    live: LiveSubscriptions[Item] = LiveSubscriptions()
    there: list[Item] = []
    for step in [
        *steps,
        [Change(b"1", b'{"id":1,"a":1,"b":2}', None, Position(0, 1), Position(0, 0), "publish", 1)],
    ]:
        if isinstance(step, Item):
            there.append(step)
            plan.add(step)
            live.add(step, step.engine)
        elif isinstance(step, list):
            assert by_plan(plan, step, topic) == by_python(live, step, topic)
        elif step < len(there):
            gone = there.pop(step)
            plan.remove(gone)
            live.remove(gone)
        assert len(plan) == len(there)
