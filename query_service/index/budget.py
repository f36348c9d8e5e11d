"""The memory that the indexes of all topics may take: the least recently used memo index goes first."""

from collections.abc import Iterable
from typing import Protocol

from sowline.model.path import Path

INDEXES_MAX = 500
"""Memo indexes of all topics: each costs something whenever records change."""


class Holder(Protocol):
    """The indexes of one topic."""

    @property
    def nbytes(self) -> int:
        """The memory that all of them take."""

    def bytes_of(self, path: Path) -> int:
        """The memory that one memo index takes."""

    def drop(self, path: Path, *, was_alone: bool) -> None:
        """Forget a memo index; `was_alone` tells that all others had gone before it, and in vain."""


class Memory:
    """Knows which memo index was used when. With a limit of 0 there are none."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._holders: list[Holder] = []
        self._used: dict[tuple[Holder, Path], None] = {}
        """Oldest first."""

    def add(self, holder: Holder) -> None:
        """Count what a topic's indexes take."""
        self._holders.append(holder)

    @property
    def nbytes(self) -> int:
        """An estimate of what all indexes take."""
        return sum(holder.nbytes for holder in self._holders)

    def use(self, holder: Holder, paths: Iterable[Path]) -> None:
        """Note that memo indexes, which are there, are used now."""
        for path in paths:
            self._used.pop((holder, path), None)
            self._used[holder, path] = None

    def make_room(self) -> None:
        """Keep within the limit after memo indexes were made, or have grown."""
        over = self.nbytes - self._bytes_max
        while self._used and (over > 0 or len(self._used) > INDEXES_MAX):
            holder, path = oldest = next(iter(self._used))
            del self._used[oldest]
            over -= holder.bytes_of(path)
            holder.drop(path, was_alone=not self._used)
