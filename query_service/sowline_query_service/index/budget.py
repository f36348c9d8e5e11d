"""The memory limit of the indexes of all topics. Above it, the least recently used memo index is dropped first."""

from collections.abc import Iterable
from typing import Protocol

from sowline.model.path import Path

INDEXES_MAX = 500
"""The largest number of memo indexes of all topics: each takes time when records change."""


class Holder(Protocol):
    """The indexes of one topic."""

    @property
    def nbytes(self) -> int:
        """The memory of all indexes, in bytes."""
        ...

    def bytes_of(self, path: Path) -> int:
        """Return the memory of one memo index, in bytes."""
        ...

    def drop(self, path: Path, *, was_alone: bool) -> None:
        """Drop a memo index; `was_alone` if it does not fit even after all others were dropped."""


class Memory:
    """Keeps the memo indexes within the limit, in the order of their last use. With a limit of 0, none is kept."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._holders: dict[Holder, None] = {}
        self._used: dict[tuple[Holder, Path], None] = {}
        """The memo indexes, the least recently used first."""

    def add(self, holder: Holder) -> None:
        """Add the indexes of a topic."""
        assert holder not in self._holders, "a topic is added once"
        self._holders[holder] = None

    def remove(self, holder: Holder) -> None:
        """Remove the indexes of a topic."""
        del self._holders[holder]
        self._used = {one: None for one in self._used if one[0] is not holder}
        assert all(one in self._holders for one, _ in self._used), (
            "only topics that are here have memo indexes"
        )

    @property
    def nbytes(self) -> int:
        """The estimated memory of all indexes, in bytes."""
        return sum(holder.nbytes for holder in self._holders)

    def use(self, holder: Holder, paths: Iterable[Path]) -> None:
        """Note that existing memo indexes are used now."""
        # A query may still run on a topic that was removed, whose memory counts no more.
        for path in paths if holder in self._holders else ():
            self._used.pop((holder, path), None)
            self._used[holder, path] = None

    def forget(self, holder: Holder, path: Path) -> None:
        """Note that a memo index is gone."""
        self._used.pop((holder, path), None)

    def make_room(self) -> None:
        """Drop memo indexes until the rest is within the limit."""
        over = self.nbytes - self._bytes_max
        while self._used and (over > 0 or len(self._used) > INDEXES_MAX):
            holder, path = oldest = next(iter(self._used))
            assert holder in self._holders, "only topics that are here have indexes to drop"
            del self._used[oldest]
            # Before it is dropped, because afterwards its size is not known any more: all others would go, too
            # (test_topics_share_the_memory).
            over -= holder.bytes_of(path)
            holder.drop(path, was_alone=not self._used)
