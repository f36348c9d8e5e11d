"""The memory that the indexes of all topics may take: the least recently used memo index goes first."""

from collections.abc import Iterable
from typing import Protocol

from sowline.path import Path


class Holder(Protocol):
    """The indexes of one topic."""

    @property
    def nbytes(self) -> int:
        """The memory that all of them take."""

    def bytes_of(self, path: Path) -> int:
        """The memory that one memo index takes."""

    def drop(self, path: Path) -> None:
        """Forget a memo index."""


class Memory:
    """Knows which memo index was used when. A limit of 0 leaves no room for any."""

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
        """Note that memo indexes are used now."""
        for path in paths:
            self._used.pop((holder, path), None)
            self._used[holder, path] = None

    def make_room(self, holder: Holder, made: Iterable[Path]) -> list[Path]:
        """Keep within the limit after memo indexes were made; return those of them for which there is no room."""
        made = set(made)
        self.use(holder, made)
        over, dropped = self.nbytes - self._bytes_max, []
        for of, path in list(self._used):
            if over <= 0:
                break
            over -= of.bytes_of(path)
            of.drop(path)
            del self._used[of, path]
            if of is holder and path in made:
                dropped.append(path)
        return dropped
