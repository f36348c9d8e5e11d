"""Bookmarks, as their description says: `topic:partition@[era/]offset[.index]`, parts and topics in a row. Pure."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

Position = tuple[int, int, int]
"""An era, an offset and an index: positions of a partition compare like these."""

Partition = tuple[str, int]
"""A log and the number of one of its partitions."""

BEFORE_ALL: Final[Position] = (-1, -1, -1)

_PART = re.compile(r"(\d+)@(?:(\d+)/)?(\d+)(?:\.(\d+))?")


@lru_cache(maxsize=100_000)
def read_bookmark(text: str) -> Mapping[Partition, Position]:
    """Return the position in each partition that a bookmark names; what is no position names none."""
    found: dict[Partition, Position] = {}
    for section in text.split(";"):
        log, _, parts = section.rpartition(":")
        for part in parts.split(","):
            if log and (match := _PART.fullmatch(part)):
                number, era, offset, index = match.groups()
                found[log, int(number)] = (int(era or 0), int(offset), int(index or 0))
    return found


def named_position(text: str) -> tuple[Partition, Position] | None:
    """Return the partition and position of a live message, which names one; None if the text names another number."""
    found = read_bookmark(text)
    # A message that names two positions stands at neither: either choice could be explained by a write
    # (test_the_position_of_a_live_message).
    return next(iter(found.items())) if len(found) == 1 else None


def covers(bookmark: str, other: str) -> bool:
    """Return whether a bookmark is at or after another in each partition that the other names."""
    held = read_bookmark(bookmark)
    return all(
        held.get(partition, BEFORE_ALL) >= position for partition, position in read_bookmark(other).items()
    )


def position_text(partition: Partition, position: Position) -> str:
    """Return a position as a bookmark."""
    (log, number), (era, offset, index) = partition, position
    return f"{log}:{number}@{f'{era}/' if era else ''}{offset}{f'.{index}' if index else ''}"
