"""Records as a view shows them."""

import gc

import msgspec

from sowline.model.position import Position
from sowline.subscriptions.engine.shown import GUESSED, ShownRecord

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
