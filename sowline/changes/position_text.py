"""The positions in an event, as text: the event has their era in another field."""

from sowline.model.position import Position, position_of


def position_text(position: Position) -> str:
    """Return the text of a position without its era, which is in another field."""
    _, offset, nth = position
    return f"{offset}.{nth}" if nth else str(offset)


def position_before(after: Position, era: int) -> str:
    """Return the text of a previous position, with its era if that differs from `era`."""
    # The first change of era 2 has the position 2/0, after 1/5. Without its era, `after` would be read as 2/5, newer
    # than any position that a follower holds, and each follower would report a gap
    # (test_the_position_before_names_its_era_where_it_is_another).
    return position_text(after) if after.era == era else f"{after.era}/{position_text(after)}"


def read_position(era: int, text: str) -> Position:
    """Read what `position_text` returned."""
    if "." in text:
        offset, _, nth = text.partition(".")
        return position_of((era, int(offset), int(nth)))
    return position_of((era, int(text), 0))


def read_position_before(era: int, text: str) -> Position:
    """Read what `position_before` returned."""
    if "/" in text:
        own, _, text = text.partition("/")
        era = int(own)
    return read_position(era, text)
