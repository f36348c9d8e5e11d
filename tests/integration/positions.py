"""The positions that a bookmark has, of a log that has been whole all the time."""


def positions_of(bookmark: str) -> dict[int, tuple[int, int]]:
    """Read the positions of one topic's bookmark, as (offset, index) by partition."""
    if bookmark == "epoch":
        return {}
    parts = (part.split("@") for part in bookmark.rpartition(":")[2].split(","))
    return {int(number): position_of(position) for number, position in parts}


def position_of(text: str) -> tuple[int, int]:
    """Read a position of the first era."""
    assert "/" not in text, "the log has been whole all the time: there is one era"
    offset, _, index = text.partition(".")
    return int(offset), int(index or 0)
