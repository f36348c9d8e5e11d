"""Viewers that are away, and what they are told to note."""

from sowline.changes.change import Change
from sowline.language.filter import compile_filter
from sowline.model.position import Position
from sowline.subscriptions.engine.subscription import ChangeView, Delivery
from sowline_query_service.live.away import AwayViewers

NEW_YORK, LONDON = b'{"desk":"NY"}', b'{"desk":"LN"}'


class Noting:
    """A viewer that notes why records left."""

    def __init__(self) -> None:
        self.noted: list[tuple[bytes, str | None]] = []

    def note_left(self, sow_key: bytes, gone: Delivery) -> None:
        """Note one."""
        self.noted.append((sow_key, gone.reason))


def test_viewers_note_what_leaves_the_sight_of_their_users() -> None:
    """By their own entitlements, as long as they are away."""
    away, york, london = AwayViewers(), Noting(), Noting()
    of_york, of_london = compile_filter("/desk = 'NY'"), compile_filter("/desk = 'LN'")
    away.enter(york, of_york)
    away.enter(london, of_london)
    assert len(away) == 2
    away.take(ChangeView(Change(b"k", LONDON, NEW_YORK, Position(0, 1), Position(0, 0), "publish", 0)))
    away.take(ChangeView(Change(b"k", None, LONDON, Position(0, 2), Position(0, 1), "delete", 0)))
    assert (york.noted, london.noted) == ([(b"k", "entitlement")], [(b"k", "deleted")])
    away.leave(york, of_york)
    away.leave(york, of_york)
    assert len(away) == 1
