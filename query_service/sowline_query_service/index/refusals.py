"""Memo indexes that did not fit into memory: for a while, queries run without them and do not wait. Pure."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from sowline.model.path import Path

PATIENCE = 100
"""The number of queries that run without a memo index before it is tried again."""

PATHS_MAX = 10_000
"""Beyond this number, all refusals are dropped, and refused indexes are tried again."""


@dataclass(slots=True)
class _Refusal:
    wanted: frozenset[Path] | None
    """The memo indexes that do not fit together; None if this one does not fit alone."""
    queries_left: int = PATIENCE


class Refusals:
    """The memo indexes of one topic that queries wait for, and those that did not fit."""

    def __init__(self) -> None:
        self._awaited: dict[Path, frozenset[Path]] = {}
        self._refused: dict[Path, _Refusal] = {}

    def __contains__(self, path: Path) -> bool:
        return path in self._refused

    def applies(self, path: Path, wanted: AbstractSet[Path]) -> bool:
        """Return whether a query that wants these memo indexes must run without this one."""
        refusal = self._refused.get(path)
        # Another query, which wants fewer at once, may have it
        # (test_what_goes_before_it_is_used_is_refused_to_those_who_want_the_same).
        return refusal is not None and refusal.wanted in (None, wanted)

    def awaited(self, wanted: frozenset[Path]) -> None:
        """Note that a query waits for these memo indexes; one that is dropped before the query uses it is refused."""
        if len(self._awaited) > PATHS_MAX:
            self._awaited.clear()
        self._awaited |= dict.fromkeys(wanted, wanted)

    def dropped(self, path: Path) -> None:
        """Note that a memo index was dropped to make room for another."""
        # What was used before it made room for others did fit (test_what_goes_after_it_was_used_is_not_refused).
        if path in self._awaited:
            self._refuse(path, self._awaited.pop(path))

    def too_large(self, path: Path) -> None:
        """Note that a memo index does not fit, even alone."""
        self._refuse(path, None)

    def made(self, path: Path) -> None:
        """Note that a memo index was made."""
        self._refused.pop(path, None)

    def answered(self, wanted: AbstractSet[Path]) -> None:
        """Note that a query that wanted these memo indexes has its access path."""
        for path in wanted:
            self._awaited.pop(path, None)
            if refusal := self._refused.get(path):
                assert refusal.queries_left > 0, "a refusal that is over was forgotten"
                refusal.queries_left -= 1
                if refusal.queries_left <= 0:
                    del self._refused[path]

    def _refuse(self, path: Path, wanted: frozenset[Path] | None) -> None:
        if len(self._refused) >= PATHS_MAX:
            self._refused.clear()
        self._refused[path] = _Refusal(wanted)
