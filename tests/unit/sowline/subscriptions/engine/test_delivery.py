"""How a subscriber is told: which fields, whole or as a delta, or not at all."""

import orjson
import pytest

from sowline.config.topic_definition import define_topic
from sowline.language.emodb.writes import DocumentMetadata, Writes
from sowline.model.select import parse_select
from sowline.subscriptions.engine.delivery import Deltas, Form, Payload, intrinsics_of, payload_of
from sowline.subscriptions.engine.subscription import MATCH, OOF, PUBLISH, Delivery
from sowline.wire.options import parse_options

KEYS = (("id",),)
BEFORE, NOW = b'{"id":1,"a":1,"b":1}', b'{"id":1,"a":2}'
SELECT = parse_select("[-/,+/id,+/b]")


def test_the_form_is_what_the_options_say() -> None:
    """Fields, and what stands beside them."""
    options = parse_options("no_empties,no_sowkey,timestamp,select=[-/,+/id,+/b]")
    assert Form.of(options, delta=True) == Form(SELECT, True, True, False, True)
    assert Form.of(parse_options("")) == Form()


@pytest.mark.parametrize(
    ("delivery", "form", "payload"),
    [
        (Delivery(PUBLISH, NOW), Form(), Payload(b"1", PUBLISH, NOW, 7)),
        (Delivery(PUBLISH, NOW, previous=BEFORE), Form(), Payload(b"1", PUBLISH, NOW, 7)),
        (Delivery(PUBLISH, NOW), Form(delta=True), Payload(b"1", PUBLISH, NOW, 7)),
        (
            Delivery(PUBLISH, NOW, previous=BEFORE),
            Form(delta=True),
            Payload(b"1", PUBLISH, b'{"id":1,"a":2}', 7, None, ("/b",)),
        ),
        (
            Delivery(PUBLISH, NOW, previous=BEFORE),
            Form(SELECT, delta=True),
            Payload(b"1", PUBLISH, b'{"id":1}', 7, None, ("/b",)),
        ),
        (Delivery(PUBLISH, NOW, previous=NOW), Form(delta=True, no_empties=True), None),
        (
            Delivery(PUBLISH, NOW, previous=b'{"id":1,"a":1}'),
            Form(SELECT, delta=True, no_empties=True),
            None,
        ),
        (
            Delivery(OOF, NOW, MATCH, BEFORE),
            Form(SELECT, delta=True),
            Payload(b"1", OOF, b'{"id":1}', 7, MATCH),
        ),
    ],
)
def test_the_payload_of_a_delivery(delivery: Delivery, form: Form, payload: Payload | None) -> None:
    """A delta to those who hold the record before; nothing where it would say nothing and that is not wanted."""
    assert payload_of(b"1", delivery, form, Deltas(KEYS), 7) == payload


def test_what_is_for_both() -> None:
    """All fields, and whatever one of them wants beside them; a delta only if both want one."""
    first = Form(SELECT, delta=True, no_empties=True, sow_key=False)
    second = Form(parse_select("[-/,+/a]"), delta=True, timestamp=True)
    both = first | second
    assert both.select == SELECT | parse_select("[-/,+/a]")
    assert (both.delta, both.no_empties, both.sow_key, both.timestamp) == (True, False, True, True)
    assert (first | Form()) == Form()
    assert first | first == first


def test_live_messages_are_as_the_topic_has_them() -> None:
    """A type that is not parsed has no deltas, and a topic without a SOW no keys; groups have deltas always."""
    binary = define_topic(name="o", key={"from": "kafka_key"}, message_type="binary")
    plain, groups = parse_options(""), parse_options("grouping=[/a],projection=[/a]")
    assert Form.live(plain, define_topic(name="o", key="/id"), delta=True) == Form(delta=True)
    assert Form.live(plain, binary, delta=True) == Form()
    assert Form.live(groups, binary, delta=True).delta
    assert Form.live(plain, define_topic(name="o", sow=False), delta=False) == Form(sow_key=False)


@pytest.mark.parametrize(
    ("selects", "is_shared"),
    [
        ([None], True),
        ([None, "[-/,+/id,+/a]"], True),
        (["[-/,+/id,+/o/x]", None], True),
        (["[-/,+/id,+/o/y]", None], False),
    ],
)
def test_a_delta_is_shared_if_it_tells_each_enough(selects: list[str | None], is_shared: bool) -> None:
    """Else the whole record is sent to all of them."""
    lists = frozenset(None if text is None else parse_select(text) for text in selects)
    delivery = Delivery(PUBLISH, b'{"id":1,"o":{"x":1}}', previous=b'{"id":1,"o":{"y":1}}')
    delta = Deltas(KEYS).shared(delivery, Form(delta=True), lists)
    assert (delta is not None) is is_shared


def test_a_whole_record_has_no_delta_to_share() -> None:
    """For a subscriber that does not hold the one before."""
    assert Deltas(KEYS).shared(Delivery(PUBLISH, NOW), Form(delta=True), frozenset([None])) is None


def test_intrinsics_are_those_of_documents() -> None:
    """If they are asked for; a document that only left focus is not deleted."""
    known = DocumentMetadata("a", Writes(2, "b", 1, 9, 9))
    form = Form(intrinsics=True)
    assert intrinsics_of("o", Form(), Delivery(PUBLISH, NOW, known=known)) is None
    assert intrinsics_of("o", form, Delivery(PUBLISH, NOW)) is None
    deleted = [
        orjson.loads(intrinsics_of("o", form, Delivery(OOF, NOW, reason, known=known)) or b"{}")["~deleted"]
        for reason in (MATCH, "deleted")
    ]
    assert deleted == [False, True]
