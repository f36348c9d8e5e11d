"""How records ended for a user who may see only some of them."""

from sowline.changes.change import Change
from sowline.language.filter import compile_filter
from sowline.model.position import Position
from sowline.subscriptions.engine.hidden_ends import HiddenEnds
from sowline.subscriptions.engine.subscription import ChangeView

SEEN, UNSEEN = b'{"desk":"NY"}', b'{"desk":"LN"}'


def ends_of(*bodies: bytes | None) -> HiddenEnds:
    """Return how the record `k` ended, given its body after each change."""
    ends = HiddenEnds(compile_filter("/desk = 'NY'"))
    previous: bytes | None = None
    for offset, body in enumerate(bodies):
        op = "delete" if body is None else "publish"
        change = Change(b"k", body, previous, Position(0, offset), Position(0, offset - 1), op, 0)
        ends.note(ChangeView(change))
        previous = body
    return ends


def test_a_hidden_record_ends_hidden() -> None:
    """One that was seen when it was deleted does not."""
    assert b"k" in ends_of(SEEN, UNSEEN, None)
    assert b"k" not in ends_of(UNSEEN, SEEN, None)
    assert b"k" not in ends_of(SEEN, UNSEEN)
    assert b"other" not in ends_of(SEEN, UNSEEN, None)


def test_the_last_end_counts() -> None:
    """A record may end several times."""
    assert b"k" not in ends_of(UNSEEN, None, SEEN, None)
    assert b"k" in ends_of(SEEN, None, UNSEEN, None)


def test_a_second_deletion_ends_nothing() -> None:
    """A document that is deleted may be deleted again."""
    assert b"k" in ends_of(UNSEEN, None, None)
    assert b"k" not in ends_of(SEEN, None, None)


def test_a_copy_notes_by_itself() -> None:
    """What it takes over stays, until it is forgotten."""
    ends = ends_of(UNSEEN, None)
    copy = ends.copy()
    ends.clear()
    assert b"k" in copy
    assert b"k" not in ends
