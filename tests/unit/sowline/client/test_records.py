"""The records that a subscription shows: what each message does to them, alone and together with others."""

import json
from typing import Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.client.records import GONE, Effect, RecordSet, asked_records, record_of
from sowline.errors import SowlineError
from sowline.model.difference import difference
from sowline.model.merge import take_out
from sowline.subscriptions.position_tracker import PositionTracker
from sowline.wire.client_message import Message
from tests.property.test_difference import bodies, exact

BEGIN, END = Message("group_begin"), Message("group_end", bookmark="orders:0@9")


def publish(key: str, body: str, *, at: int = 1, more: bool = False) -> Message:
    """A record, whole."""
    return Message("publish", sow_key=key, body=body.encode(), bookmark=f"orders:0@{at}", more=more)


def delta(key: str, body: str, *removed: str) -> Message:
    """What has changed in a record."""
    return Message("publish", sow_key=key, body=body.encode(), delta=True, removed=removed)


def oof(key: str, reason: str = "match", *, more: bool = False) -> Message:
    """A record that leaves."""
    return Message("oof", sow_key=key, body=b"{}", reason=reason, more=more)


def sow(key: str, body: str) -> Message:
    """A record of a group."""
    return Message("sow", sow_key=key, body=body.encode())


def holding(**held: str) -> RecordSet:
    """Records with these bodies, the keys without their first letter."""
    return RecordSet({key[1:]: body.encode() for key, body in held.items()}, PositionTracker("orders:0@0"))


def taken(records: RecordSet, *messages: Message) -> list[Effect] | None:
    """Take messages; return what the last of them did, when none before it has done anything."""
    *before, last = messages
    assert [records.take(message) for message in before] == [None] * len(before)
    return records.take(last)


def test_a_record_comes_changes_and_leaves() -> None:
    """Each message is a step, and an effect with the bodies before and after it."""
    records = RecordSet()
    assert records.take(publish("1", '{"a":1}')) == [Effect("1", None, b'{"a":1}')]
    assert records.take(publish("1", '{"a":2}')) == [Effect("1", b'{"a":1}', b'{"a":2}')]
    assert records.take(oof("1", "deleted")) == [Effect("1", b'{"a":2}', None, "deleted")]
    assert records.bodies == {}


def test_what_is_sent_once_more_has_no_effect() -> None:
    """Neither the same record nor the same in other words; the text is kept as it came last."""
    records = holding(k1='{"a":1,"b":2}')
    assert records.take(publish("1", '{"a":1,"b":2}')) == []
    assert records.take(publish("1", '{ "b":2, "a":1 }')) == []
    assert records.take(delta("1", '{"a":1}')) == []
    assert records.bodies == {"1": b'{"b":2,"a":1}'}
    assert records.take(publish("1", '{"a":1.0,"b":2}')) != []


def test_a_record_that_is_not_held_cannot_leave() -> None:
    """An oof of it means nothing, but moves the place on."""
    records = holding(k1="{}")
    gone = Message("oof", sow_key="2", body=b"{}", bookmark="orders:0@5")
    assert records.take(gone) == []
    assert records.position.bookmark == "orders:0@5"


def test_a_delta_is_merged_and_what_was_removed_taken_out() -> None:
    """All else keeps its exact text."""
    records = holding(k1='{"id":1,"n":1.50,"o":{"a": [ 1 ],"b":2},"x":12345678901234567890123}')
    assert taken(records, delta("1", '{"id":1,"o":{"c":1e2}}', "/o/b", "/y")) != []
    assert records.bodies["1"] == b'{"id":1,"n":1.50,"o":{"a":[ 1 ],"c":1e2},"x":12345678901234567890123}'


@pytest.mark.parametrize(
    "messages",
    [
        [delta("1", '{"a":1}')],
        [oof("2", more=True), delta("2", '{"a":1}')],
        [sow("1", "{}")],
        [END],
        [BEGIN, sow("1", "{}"), Message("group_end", records=2)],
        [BEGIN, Message("group_end", records=1)],
    ],
)
def test_what_is_missing_is_a_gap(messages: list[Message]) -> None:
    """A delta of a record that is not held, a record outside of a group, and a group that is not whole."""
    *before, last = messages
    records = holding(k2='{"a":1,"b":1}')
    assert [records.take(message) for message in before] == [None] * len(before)
    with pytest.raises(SowlineError) as error:
        records.take(last)
    assert (error.value.reason, records.bodies) == ("gap", {"2": b'{"a":1,"b":1}'})


def test_a_step_is_applied_at_once() -> None:
    """Until its last message comes nothing has happened, and no place is reached."""
    records = holding(k1='{"a":1}')
    assert records.take(oof("1", more=True)) is None
    assert (records.bodies, records.position.bookmark) == ({"1": b'{"a":1}'}, "orders:0@0")
    assert records.take(publish("2", "{}", at=3)) == [
        Effect("1", b'{"a":1}', None, "match"),
        Effect("2", None, b"{}"),
    ]
    assert (records.bodies, records.position.bookmark) == ({"2": b"{}"}, "orders:0@3")


def test_of_a_step_the_outcome_counts() -> None:
    """A record that changes twice, or leaves and comes back, differs or does not."""
    records = holding(k1='{"a":1}', k2='{"a":1}', k3="{}")
    step = [
        publish("1", '{"a":2}', more=True),
        oof("2", more=True),
        publish("4", "{}", more=True),
        publish("1", '{"a":3}', more=True),
        publish("2", '{"a":1}', more=True),
        oof("4"),
    ]
    assert taken(records, *step) == [Effect("1", b'{"a":1}', b'{"a":3}')]


@pytest.mark.parametrize("reset", [False, True])
def test_a_group_is_all_there_is(reset: bool) -> None:
    """What it does not hold is gone, what it holds as before does not count, and all of it is one step."""
    records = holding(k1='{"a":1}', k2='{"a":1}', k3='{"a":1}')
    begin = Message("group_begin", reset=reset, bookmark="orders:0@9")
    effects = taken(records, begin, sow("4", "{}"), sow("3", '{"a":2}'), sow("2", '{ "a": 1 }'), END)
    assert effects == [
        Effect("1", b'{"a":1}', None, GONE),
        Effect("4", None, b"{}"),
        Effect("3", b'{"a":1}', b'{"a":2}'),
    ]
    assert list(records.bodies) == ["2", "3", "4"]
    assert records.position.bookmark == "orders:0@9"


def test_an_empty_group_empties() -> None:
    """No record is an answer, too."""
    records = holding(k1="{}")
    assert taken(records, BEGIN, END) == [Effect("1", b"{}", None, GONE)]


def test_a_group_that_replaces_is_added() -> None:
    """Those that leave were told before it; all is one step."""
    records = holding(k1="{}", k2='{"a":1}', k3="{}")
    begin = Message("group_begin", replace=True)
    effects = taken(records, oof("1", more=True), begin, sow("4", "{}"), sow("2", '{"a":2}'), END)
    assert effects == [
        Effect("1", b"{}", None, "match"),
        Effect("4", None, b"{}"),
        Effect("2", b'{"a":1}', b'{"a":2}'),
    ]
    assert list(records.bodies) == ["2", "3", "4"]


@pytest.mark.parametrize(
    "half",
    [
        [BEGIN, sow("9", "{}")],
        [oof("1", more=True), publish("9", "{}", more=True)],
        [oof("1", more=True), Message("group_begin", replace=True), sow("9", "{}")],
    ],
)
@pytest.mark.parametrize("begin", [BEGIN, Message("group_begin", reset=True)])
def test_what_broke_off_is_forgotten_when_a_group_begins(half: list[Message], begin: Message) -> None:
    """After a lost connection the group begins again."""
    records = holding(k1="{}")
    assert taken(records, *half, begin, sow("1", "{}"), END) == []
    assert records.bodies == {"1": b"{}"}


def test_what_broke_off_is_forgotten_when_a_group_that_replaces_begins_again() -> None:
    """It is a group like any other in that."""
    records = holding(k1="{}")
    begin = Message("group_begin", replace=True)
    assert taken(records, begin, sow("9", "{}"), begin, sow("2", "{}"), END) == [Effect("2", None, b"{}")]


def test_a_live_message_during_a_group_says_that_the_group_broke_off() -> None:
    """The stream goes on from where it was before."""
    records = holding(k1="{}")
    assert taken(records, BEGIN, sow("9", "{}"), publish("2", "{}")) == [Effect("2", None, b"{}")]
    assert taken(records, BEGIN, sow("9", "{}"), oof("2", more=True), publish("3", "{}")) is not None
    assert list(records.bodies) == ["1", "3"]


def test_records_without_a_key_can_not_be_held() -> None:
    """Nothing is changed by the step that has one."""
    records = holding(k1="{}")
    with pytest.raises(SowlineError, match="SOW key"):
        taken(records, oof("1", more=True), Message("publish", body=b"{}"))
    assert records.bodies == {"1": b"{}"}


@pytest.mark.parametrize("body", [b"", b"[]", b"{", '{"a":1}', None])
def test_only_bodies_can_be_begun_with(body: Any) -> None:
    """A saved copy that is damaged is refused."""
    with pytest.raises(SowlineError, match="JSON object"):
        RecordSet({"1": body})


@pytest.mark.parametrize(
    ("paths", "left"),
    [
        ([], '{"a":1.0, "o":{ "b":1,"c d":{"e":[1 ]}}}'),
        (["/a"], '{"o":{ "b":1,"c d":{"e":[1 ]}}}'),
        (["/o"], '{"a":1.0}'),
        (["/o/b", "/a"], '{"o":{"c d":{"e":[1 ]}}}'),
        (["[/o/c d]/e"], '{"a":1.0,"o":{"b":1,"c d":{}}}'),
        (["/o", "/o/b"], '{"a":1.0}'),
        (["/o/b", "/o"], '{"a":1.0}'),
        (["/x", "/a/b", "/o/x/y", "/o/b/c"], '{"a":1.0,"o":{"b":1,"c d":{"e":[1 ]}}}'),
    ],
)
def test_fields_are_taken_out_by_their_paths(paths: list[str], left: str) -> None:
    """What is not there can't be taken out; the rest keeps its text."""
    assert take_out(b'{"a":1.0, "o":{ "b":1,"c d":{"e":[1 ]}}}', paths) == left.encode()


Delivery = Literal["live", "step", "group", "reset", "replaced", "broken"]
models = st.dictionaries(st.sampled_from("1234"), bodies, max_size=4)
deliveries = st.sampled_from(Delivery.__args__)  # type: ignore[attr-defined]


def messages_between(
    before: dict[str, bytes], after: dict[str, bytes], how: Delivery, deltas: bool
) -> list[Message]:
    """The messages that lead from one state to the next."""
    live = [Message("oof", sow_key=key, reason="match", body=b"{}") for key in before if key not in after]
    came = []
    for key, body in after.items():
        if key not in before or before[key] != body:
            came.append(_changed(key, before.get(key), body, deltas))
    whole = [Message("sow", sow_key=key, body=body) for key, body in after.items()]
    if how == "live":
        return live + came
    if how == "step":
        return _together(live + came)
    if how == "replaced":
        added = [Message("sow", sow_key=one.sow_key, body=after[one.sow_key or ""]) for one in came]
        begin = Message("group_begin", replace=True)
        return [*_together(live, behind=True), begin, *added, Message("group_end")]
    group = [Message("group_begin", reset=how == "reset"), *whole, Message("group_end")]
    return [*_together(live, behind=True), *group[: len(group) // 2], *group] if how == "broken" else group


def _changed(key: str, before: bytes | None, body: bytes, deltas: bool) -> Message:
    if before is None or not deltas or (change := difference(before, body, ())).whole:
        return Message("publish", sow_key=key, body=body)
    return Message("publish", sow_key=key, body=change.body, delta=True, removed=change.removed)


def _together(messages: list[Message], *, behind: bool = False) -> list[Message]:
    last = len(messages) if behind else len(messages) - 1
    return [
        Message(
            m.command,
            sow_key=m.sow_key,
            body=m.body,
            reason=m.reason,
            delta=m.delta,
            removed=m.removed,
            more=at < last,
        )
        for at, m in enumerate(messages)
    ]


def parsed(held: dict[str, bytes]) -> dict[str, str]:
    """What the bodies say."""
    return {key: exact(body) for key, body in held.items()}


@given(st.lists(st.tuples(models, deliveries, st.booleans()), max_size=6))
@example([({"1": b'{"a":1}'}, "group", False), ({"1": b"{}"}, "live", True), ({}, "broken", False)])
def test_with_each_delivery_the_records_are_those_of_the_model(
    history: list[tuple[dict[str, bytes], Delivery, bool]],
) -> None:
    """Whole or as deltas, one by one, in steps or in groups; and the effects tell exactly what differs."""
    records, model = RecordSet(), dict[str, bytes]()
    followed: dict[str, bytes] = {}
    for after, how, deltas in history:
        effects = [
            effect for m in messages_between(model, after, how, deltas) for effect in records.take(m) or ()
        ]
        assert parsed(records.bodies) == parsed(after)
        for key, before, now, reason in effects:
            assert (before is None) == (key not in followed)
            assert before is None or exact(before) == exact(followed[key]) != (now and exact(now))
            assert (now is None) == bool(reason)
            followed.pop(key, None)
            if now is not None:
                followed[key] = now
        assert parsed(followed) == parsed(after)
        model = after


def test_the_property_can_see_every_delivery() -> None:
    """Each leads to messages of its own."""
    before, after = {"1": b'{"a":1}', "2": b"{}"}, {"1": b'{"a":2}', "3": b"{}"}
    shapes = {
        how: json.dumps(
            [(m.command, m.more, m.reset, m.replace) for m in messages_between(before, after, how, True)]
        )
        for how in Delivery.__args__  # type: ignore[attr-defined]
    }
    assert len(set(shapes.values())) == len(shapes)


def test_a_record_as_a_dict_has_the_intrinsics_that_were_asked_for() -> None:
    """As an answer for one record has them."""
    body = b'{"rating":5}'
    assert record_of(Message("sow", body=body)) == {"rating": 5}
    assert record_of(Message("sow", body=body, intrinsics={"~version": 2})) == {"rating": 5, "~version": 2}


def test_records_as_dicts_are_not_in_a_message_type() -> None:
    """That is refused before it is asked."""
    with pytest.raises(SowlineError, match="expected options without format=native") as error:
        asked_records("orders", options="format=native")
    assert error.value.reason == "invalid options"
    assert asked_records("orders", filter="/a = 1", top_n=3).command == "sow"
