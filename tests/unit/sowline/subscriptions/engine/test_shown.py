"""Records as a view shows them."""

import gc
from typing import Any

import msgspec
import pytest

from sowline.config.topic_definition import define_topic
from sowline.language.emodb.writes import DocumentMetadata, Writes
from sowline.language.expressions.order import Order, parse_order
from sowline.language.filter import compile_filter
from sowline.model.position import Position
from sowline.subscriptions.engine.shown import (
    GUESSED,
    ShownRecord,
    as_sent,
    as_they_were,
    difference,
    identifying_fields,
    in_order,
    is_redundant,
    keys_shown,
    no_longer_shown,
)
from sowline.subscriptions.engine.subscription import MATCH, OOF, PUBLISH, Delivery
from sowline.wire.options import parse_options

SHOWN = ShownRecord(b'{"id":1}', 7, 2, (0, 5, 0))


def test_the_garbage_collector_passes_over_the_records_of_a_page() -> None:
    """Once it has seen their position, which is a plain tuple."""
    assert SHOWN.position is not None
    gc.collect()
    assert not gc.is_tracked(SHOWN)
    assert not gc.is_tracked(SHOWN.position)


def test_what_a_gateway_gets_has_all_but_the_body() -> None:
    """As an array, whose form does not change between versions."""
    relayed = SHOWN.relayed()
    assert msgspec.json.decode(relayed) == ["", 7, 2, [0, 5, 0], None]
    assert ShownRecord.read(SHOWN.body, relayed) == SHOWN
    assert ShownRecord(SHOWN.body, 7, 2, Position(0, 5)) == SHOWN


def test_a_guess_is_behind_no_position() -> None:
    """The body stays."""
    guess = SHOWN.as_guess()
    assert (guess.body, guess.position) == (SHOWN.body, GUESSED)


OLD, NEW = b'{"id":1,"a":1}', b'{"id":1,"a":2}'


def known(mutated: int = 1, *tags: str) -> DocumentMetadata:
    """Return the metadata of a document that was changed at this time."""
    return DocumentMetadata("a", Writes(1, "s", 1, 9, mutated, tags))


def test_an_oof_has_what_the_subscriber_may_see_and_holds() -> None:
    """A conflated one holds the previous body."""
    oof = Delivery(OOF, NEW, MATCH, OLD)
    assert as_sent(oof, None, is_conflated=False) == oof
    assert as_sent(oof, compile_filter("/a = 1"), is_conflated=False).body == OLD
    assert as_sent(oof, None, is_conflated=True) == Delivery(OOF, OLD, MATCH, OLD)
    publish = Delivery(PUBLISH, NEW, previous=OLD)
    assert as_sent(publish, None, is_conflated=True) == publish


def test_a_record_that_is_no_longer_shown_was_deleted_or_does_not_match() -> None:
    """The first one has the body that its viewer holds."""
    assert no_longer_shown(OLD, None) == Delivery(OOF, OLD, "deleted", OLD)
    assert no_longer_shown(OLD, NEW) == Delivery(OOF, NEW, MATCH, OLD)


@pytest.mark.parametrize(
    ("delivery", "of_changed", "redundant"),
    [
        (Delivery(PUBLISH, NEW, previous=NEW), False, True),
        (Delivery(PUBLISH, NEW, previous=OLD), False, False),
        (Delivery(PUBLISH, NEW, previous=OLD), True, True),
        (Delivery(PUBLISH, NEW), True, False),
        (Delivery(OOF, NEW, previous=NEW), True, False),
    ],
)
def test_a_message_may_change_nothing(delivery: Delivery, of_changed: bool, redundant: bool) -> None:
    """Only one to a subscriber that holds the record."""
    assert is_redundant(delivery, of_changed=of_changed) is redundant


def test_redundant_writes_leave_a_document_as_it_was() -> None:
    """Its content and its tags are the same."""
    held = ShownRecord(OLD, 7, known=known())
    assert as_they_were(held, ShownRecord(OLD, 8, known=known()))
    for other in (
        ShownRecord(NEW, 8, known=known()),
        ShownRecord(OLD, 8),
        ShownRecord(OLD, 8, known=known(1, "t")),
    ):
        assert not as_they_were(held, other)


def test_entries_are_identified_by_key_or_grouping() -> None:
    """Each delta has these fields."""
    topic, groups = (
        define_topic(name="o", key="/id"),
        parse_options("grouping=[/a/b],projection=[/a/b AS /x]"),
    )
    assert (keys_shown(topic, parse_options("")), identifying_fields(topic, parse_options(""))) == (
        (("id",),),
        (("id",),),
    )
    assert (keys_shown(topic, groups), identifying_fields(topic, groups)) == ((("x",),), (("a", "b"),))


def due(
    held: dict[bytes, ShownRecord], now: dict[bytes, ShownRecord], **given: Any
) -> list[tuple[bytes, str, Any]]:
    """Return the messages from one view to another: key, command, and the body that is held."""
    messages = difference(held, now, lambda key, body: no_longer_shown(body, None), **{"oof": True, **given})
    return [(key, delivery.command, delivery.previous) for key, delivery in messages]


def test_a_difference_turns_one_view_into_the_other() -> None:
    """What is as it was is not sent, unless it was touched."""
    one, other, new = (ShownRecord(body, 7, 0, (0, 5, 0)) for body in (OLD, NEW, b"{}"))
    held, now = {b"1": one, b"2": one, b"3": one}, {b"1": one, b"2": other, b"4": new}
    assert due(held, now) == [(b"3", OOF, OLD), (b"2", PUBLISH, OLD), (b"4", PUBLISH, None)]
    assert due(held, now, oof=False) == [(b"2", PUBLISH, OLD), (b"4", PUBLISH, None)]
    assert due(held, {b"1": one}, oof=False, touched={b"1"}) == [(b"1", PUBLISH, OLD)]


def test_a_guess_is_sent_whole() -> None:
    """A delta against it could be wrong."""
    one = ShownRecord(OLD, 7, 0, (0, 5, 0))
    assert due({b"1": one.as_guess()}, {b"1": one}) == [(b"1", PUBLISH, None)]


def test_redundant_writes_may_be_left_out() -> None:
    """If the subscriber asked for that."""
    held, now = ({b"1": ShownRecord(OLD, 7, 0, (0, offset, 0), known())} for offset in (5, 6))
    assert due(held, now) == [(b"1", PUBLISH, OLD)]
    assert due(held, now, no_redundant=True) == []


def test_groups_come_in_the_order_that_is_asked_for() -> None:
    """A page of them, or all."""
    shown = {b"%d" % number: ShownRecord(b'{"n":%d}' % number, 0) for number in (2, 3, 1)}
    assert list(in_order(shown, parse_order("/n"), 0, None)) == [b"1", b"2", b"3"]
    assert list(in_order(shown, parse_order("/n DESC"), 1, 2)) == [b"2"]
    assert list(in_order(shown, Order(), 1, None)) == [b"3", b"1"]
