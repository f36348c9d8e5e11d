"""How a subscriber is told: which fields, whole or as a delta, or not at all."""

import pytest

from sowline.model.select import parse_select
from sowline.subscriptions.engine.delivery import Deltas, Form, Payload, payload_of
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
