"""A position: which change of a partition, in log order.

`era/offset.n` is the *n*-th change that the log record at *offset* makes, in the partition's
*era*. Positions compare as they follow each other in the partition.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Self

from sowline.errors import SowlineError

_TEXT = re.compile(r"(?:(\d{1,10})/)?(-1|\d{1,19})(?:\.(\d{1,10}))?", re.ASCII)


class Position(NamedTuple):
    """The place of one change in its partition. An offset of -1 is the place before the log's first record."""

    era: int
    offset: int
    nth: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `[era/]offset[.index]`; raises `invalid bookmark` for anything else."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise SowlineError("invalid bookmark", f"expected a position like 1187 or 1187.2, got {text!r}")
        era, offset, nth = match.groups()
        return cls(int(era or 0), int(offset), int(nth or 0))

    def __str__(self) -> str:
        era = f"{self.era}/" if self.era else ""
        return f"{era}{self.offset}.{self.nth}" if self.nth else f"{era}{self.offset}"


position_of: Callable[[tuple[int, int, int]], Position] = partial(tuple.__new__, Position)
"""Return the position with this era, offset and n, in half of the time that the class takes."""


def before_the_log(era: int = 0) -> Position:
    """Return the position of a partition that has applied nothing in this era."""
    return Position(era, -1)
