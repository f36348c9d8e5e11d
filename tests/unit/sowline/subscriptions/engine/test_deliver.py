"""The messages of a change to many subscriptions: who shares one, and what each learns of it."""

from typing import NamedTuple

import orjson
from hypothesis import given
from hypothesis import strategies as st

from sowline.changes.change import Change
from sowline.client.records import updated as client_holds
from sowline.config.topic_definition import define_topic
from sowline.model.position import Position
from sowline.model.select import Select, parse_select
from sowline.subscriptions.engine.deliver import MessageTerms, Outgoing, deliver
from sowline.subscriptions.engine.delivery import Deltas, Form
from sowline.subscriptions.engine.subscription import ENTITLEMENT, MATCH, OOF, PUBLISH, Delivery, updated
from sowline.wire.client_message import read_frame

TOPIC = define_topic(name="orders", key=("/id",))
BEFORE, NOW = b'{"id":1,"a":1,"b":1}', b'{"id":1,"a":2}'
SELECTS = [None, parse_select("[-/,+/id,+/b]"), parse_select("[-/,+/id,+/a/x]"), parse_select("[-/a]")]


class Subscriber(NamedTuple):
    """A subscription."""

    terms: MessageTerms


def subscriber(connection: str, sid: str, form: Form | None = None, *, shares: bool = False) -> Subscriber:
    """Return a subscription of a connection."""
    return Subscriber(MessageTerms.of(connection, sid, form or Form(), shares=shares))


def change(before: bytes | None, now: bytes) -> Change:
    """Return a change of the record."""
    return Change(b"1", now, before, Position(0, 5), Position(0, 4), "publish", 7)


def delivered(
    made: Change, found: list[tuple[Subscriber, Delivery]]
) -> tuple[list[Outgoing], list[Subscriber]]:
    """Return the messages of a change of partition 3, and who gets one."""
    return deliver(TOPIC, 3, made, found, Deltas(TOPIC.key_fields))


def test_a_message_says_what_its_subscriptions_asked_for() -> None:
    """Its connection, its bytes, and the subscriptions that it is for."""
    one = subscriber("c", "s")
    publish = change(None, NOW)
    outgoing, reached = delivered(publish, [(one, Delivery(PUBLISH, NOW))])
    message = (
        b'{"command":"publish","sids":["s"],"topic":"orders","sow_key":"1","bookmark":"orders:3@5",'
        b'"data":{"id":1,"a":2}}'
    )
    assert (outgoing, reached) == ([("c", message, ("s",))], [one])


def test_connections_share_bytes_and_subscriptions_of_one_a_message() -> None:
    """Three subscriptions of two connections: two messages."""
    found = [subscriber("c", "s"), subscriber("c", "t"), subscriber("d", "s")]
    outgoing, _ = delivered(change(None, NOW), [(one, Delivery(PUBLISH, NOW)) for one in found])
    assert [(connection, sids) for connection, _, sids in outgoing] == [("c", ("s", "t")), ("d", ("s",))]


def test_only_equal_forms_of_a_gateway_share_a_message() -> None:
    """Its subscriptions are those of many clients."""
    forms = [Form(), Form(timestamp=True), Form()]
    found = [subscriber("g", f"s{number}", form, shares=True) for number, form in enumerate(forms)]
    outgoing, _ = delivered(change(None, NOW), [(one, Delivery(PUBLISH, NOW)) for one in found])
    assert [sids for _, _, sids in outgoing] == [("s0", "s2"), ("s1",)]


def test_who_may_not_see_the_new_record_shares_no_message_of_it() -> None:
    """The reason tells them apart, if they are of two connections."""
    leaving = [
        (subscriber("c", "s"), Delivery(OOF, NOW, MATCH, BEFORE)),
        (subscriber("d", "s"), Delivery(OOF, BEFORE, ENTITLEMENT, BEFORE)),
    ]
    outgoing, _ = delivered(change(BEFORE, NOW), leaving)
    assert [orjson.loads(message)["data"] for _, message, _ in outgoing] == [
        orjson.loads(NOW),
        orjson.loads(BEFORE),
    ]


def test_an_empty_delta_reaches_only_those_who_want_it() -> None:
    """Who leaves empty messages out is not reached."""
    found = [subscriber("c", "s", Form(delta=True, no_empties=empty)) for empty in (True, False)]
    same = change(NOW, NOW)
    outgoing, reached = delivered(same, [(one, updated(same)) for one in found])
    assert (len(outgoing), reached) == (1, found[1:])


bodies = st.fixed_dictionaries(
    {"id": st.just(1)},
    optional={
        "a": st.none() | st.integers(0, 2) | st.fixed_dictionaries({}, optional={"x": st.integers(0, 2)}),
        "b": st.integers(0, 2),
    },
).map(orjson.dumps)
subscribers = st.lists(
    st.builds(
        lambda connection, select, delta, no_empties, shares: (
            connection,
            Form(select, delta, no_empties),
            shares,
        ),
        st.sampled_from("cde"),
        st.sampled_from(SELECTS),
        st.booleans(),
        st.booleans(),
        st.booleans(),
    ),
    max_size=6,
)


@given(bodies, bodies, subscribers)
def test_each_holds_what_it_selects_after_a_shared_message(
    before: bytes, now: bytes, asked: list[tuple[str, Form, bool]]
) -> None:
    """Whatever it shares a message with, it learns its part of the record from it, once."""
    found = [
        subscriber(connection, f"s{number}", form, shares=shares)
        for number, (connection, form, shares) in enumerate(asked)
    ]
    made = change(before, now)
    outgoing, reached = delivered(made, [(one, updated(made)) for one in found])
    for one in found:
        (sid,), form, selects = one.terms.whole
        (select,) = selects
        mine = [message for to, message, sids in outgoing if to == one.terms.connection and sid in sids]
        assert len(mine) == (one in reached)
        held = part(before, select)
        for message in mine:
            (sent,) = [one for received in read_frame(message) for one in received.messages()]
            held = part(client_holds(held, sent), select)
        assert orjson.loads(held) == orjson.loads(part(now, select))
        assert not form.delta


def part(body: bytes, select: Select | None) -> bytes:
    """Return the selected part of a body."""
    return body if select is None else select.apply(body)
