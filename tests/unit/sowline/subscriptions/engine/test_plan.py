"""Which subscriptions the native core has."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from sowline.changes.change import Change
from sowline.config.topic_definition import define_topic
from sowline.language.filter import compile_filter
from sowline.model.position import Position
from sowline.model.select import parse_select
from sowline.subscriptions.engine.deliver import MessageTerms
from sowline.subscriptions.engine.delivery import Form
from sowline.subscriptions.engine.plan import DeliveryPlan
from sowline.subscriptions.engine.subscription import ChangeView, Subscription
from tests.panics import panic

native: Any = pytest.importorskip("sowline_native")

TOPIC = define_topic(name="orders", key=("/id",))
CHANGE = Change(b"1", b'{"id":1,"a":1}', None, Position(0, 5), Position(0, 4), "publish", 7)


@dataclass(eq=False)
class Item:
    """A live subscription of a connection."""

    connection: str = "c"
    sid: str = "s"
    filter: str = ""
    form: Form = Form()
    is_plain: bool = True
    is_restricted: bool = False
    shares: bool = False
    oof: bool = False

    def __post_init__(self) -> None:
        self.engine = Subscription(compile_filter(self.filter), self.oof)
        self.terms = MessageTerms.of(self.connection, self.sid, self.form, shares=self.shares)


def view(at: int) -> ChangeView:
    """Return the view of the only change."""
    assert at == 0
    return ChangeView(CHANGE)


def planned(*items: Item) -> DeliveryPlan[Item]:
    """Return a plan with these subscriptions."""
    plan: DeliveryPlan[Item] = DeliveryPlan(TOPIC, native)
    for item in items:
        plan.add(item)
    return plan


@pytest.mark.parametrize(
    ("asked", "is_known"),
    [
        ({}, True),
        ({"filter": "/a = 1 AND /b > 2 AND /c/d IN ('x', 2.5)"}, True),
        ({"filter": "/a = 1 OR /b = 2"}, True),
        ({"filter": "/a LIKE 'x'"}, True),
        ({"filter": "/a[0] = 1"}, True),
        ({"filter": "SOW_KEY() = '1'"}, True),
        ({"form": Form(delta=True, no_empties=True, timestamp=True, sow_key=False)}, True),
        ({"form": Form(parse_select("[-/,+/id]"))}, True),
        ({"form": Form(parse_select("[-/,+/a/b]"))}, False),
        ({"form": Form(intrinsics=True)}, False),
        ({"is_plain": False}, False),
        ({"is_restricted": True}, True),
        ({"shares": True}, True),
    ],
)
def test_the_native_core_has_what_asks_for_no_more_than_it_knows(
    asked: dict[str, Any], is_known: bool
) -> None:
    """The others are Python's."""
    plan = planned(Item(**asked))
    assert (plan.has_native, plan.has_others, len(plan)) == (is_known, not is_known, 1)


def test_the_subscriptions_of_a_connection_are_of_one_core() -> None:
    """They share messages, so one that is Python's takes the others along until it leaves."""
    odd, plain, other = Item(form=Form(intrinsics=True)), Item(sid="t"), Item("d")
    plan = planned(plain, other)
    assert not plan.has_others
    plan.add(odd)
    assert [item for item, _ in plan.to_others(ChangeView(CHANGE))] == [plain, odd]
    assert [item for item, _ in plan.left_by_native(ChangeView(CHANGE))] == [other]
    plan.remove(odd)
    assert not plan.has_others
    assert len(plan.deliver(0, [CHANGE], 0, view)[1]) == 2


def test_filters_that_python_evaluates() -> None:
    """Only records that meet what the native core knows of a filter, and only where a subscriber wants to know."""
    read: list[int] = []

    def counted(at: int) -> ChangeView:
        read.append(at)
        return ChangeView(changes[at])

    changes = [
        Change(b"1", body, before, Position(0, at), Position(0, at - 1), "publish", 7)
        for at, (body, before) in enumerate(
            [
                (b'{"id":1,"a":1,"b":"xy"}', b'{"id":1,"a":1,"b":"x"}'),
                (b'{"id":1,"a":2,"b":"xy"}', None),
                (b'{"id":1,"a":1,"b":"y"}', None),
            ]
        )
    ]
    plan = planned(item := Item(filter="/a = 1 AND /b LIKE 'x'"), Item("d", oof=True, filter="/a = 9"))
    end, parts, reached = plan.deliver(0, changes, 0, counted)
    assert (end, [len(messages) for _, messages, _ in parts], reached) == (3, [1], [item])
    assert read == [0, 2]


def test_a_filter_that_fails_says_so() -> None:
    """Its error is that of the change, as without the native core."""

    def broken(at: int) -> ChangeView:
        raise ZeroDivisionError(at)

    with pytest.raises(ZeroDivisionError):
        planned(Item(filter="/a LIKE '1'")).deliver(0, [CHANGE], 0, broken)


def test_a_subscription_that_shares_no_messages_leaves_the_others_where_they_are() -> None:
    """A conflated one is Python's, and the plain ones of its connection are the native core's."""
    conflated, plain = Item(is_plain=False), Item(sid="t")
    plan = planned(conflated, plain)
    assert [item for item, _ in plan.to_others(ChangeView(CHANGE))] == [conflated]
    assert [item for item, _ in plan.left_by_native(ChangeView(CHANGE))] == [plain]
    plan.remove(conflated)
    assert (plan.has_native, plan.has_others) == (True, False)


def test_a_filter_of_too_many_fields_is_left_to_python() -> None:
    """Each change is searched for all fields that filters name."""
    items = [Item(f"c{number}", filter=f"/f{number} = 1") for number in range(70)]
    plan = planned(*items)
    assert (plan.has_native, plan.has_others) == (True, True)
    for item in items[:10]:
        plan.remove(item)
    plan.add(late := Item("late", filter="/late = 1"))
    plan.remove(late)
    for item in items[10:]:
        plan.remove(item)
    assert (plan.has_native, plan.has_others, len(plan)) == (False, False, 0)


def test_a_subscription_is_added_once() -> None:
    """It would get each message twice."""
    item = Item()
    plan = planned(item)
    with pytest.raises(ValueError, match="remove it first"):
        plan.add(item)
    plan.remove(item)
    plan.remove(item)
    assert len(plan) == 0


def test_a_native_core_that_panics_is_used_no_more() -> None:
    """Python delivers from that change on."""
    plan: DeliveryPlan[Item] = DeliveryPlan(TOPIC, SimpleNamespace(DeliveryPlan=Panicking))  # type: ignore[arg-type]
    plan.add(Item())
    assert plan.has_native
    assert plan.deliver(0, [CHANGE], 0, view) == (0, (), ())
    assert not plan.has_native
    assert len(plan.on_change(ChangeView(CHANGE))) == 1
    plan.add(late := Item())
    assert len(plan.on_change(ChangeView(CHANGE))) == 2
    assert not plan.left_by_native(ChangeView(CHANGE))
    plan.remove(late)
    assert len(plan) == 1


def test_any_other_error_is_raised() -> None:
    """Only a panic is a fault that Python can work around."""
    with pytest.raises(TypeError):
        planned(Item()).deliver(0, [object()], "0", view)  # type: ignore[arg-type, list-item]


class Panicking:
    """A native plan that fails."""

    def __init__(self, *given: object) -> None:
        pass

    def add(self, *given: object) -> bool:
        """Take any subscription."""
        return True

    deliver = staticmethod(panic)
