"""The verdict on a history: how much of each guarantee was checked, and where it was broken. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Guarantee(StrEnum):
    """The promises of docs/guarantees.md, by name."""

    SNAPSHOT = "snapshot"
    PAGES = "pages"
    GROUPS = "groups"
    NO_GAP = "no gap"
    NO_REPEAT = "no repeat"
    ORDER = "order"
    FOCUS = "focus"
    DELTAS = "deltas"
    RESUME = "resume"
    READ_YOUR_WRITES = "read your writes"
    MONOTONIC_READS = "monotonic reads"
    CONFLATION = "conflation"
    CHECKSUM = "checksum"
    VIEWS = "views"
    FANOUTS = "fanouts"
    EXPIRY = "expiry"
    DELETES = "deletes"
    DOCUMENTS = "documents"
    ONE_EFFECT = "one effect"
    ANSWERS = "answers"


@dataclass(frozen=True, slots=True)
class Violation:
    """One event, or one that is missing, which breaks a guarantee."""

    guarantee: Guarantee
    sentence: str
    read: str = ""
    """The query or subscription concerned; empty for what all of them received, or for a write."""
    keys: tuple[str, ...] = ()
    """The records concerned; none if it is about a whole read."""

    def __str__(self) -> str:
        return f"{self.guarantee}: {f'{self.read}: ' if self.read else ''}{self.sentence}"


@dataclass
class Judgment:
    """How much was checked of each guarantee, and every violation in the order in which it was found."""

    checked: Counter[Guarantee] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)

    @property
    def broken(self) -> Mapping[Guarantee, int]:
        """The number of violations of each guarantee that has any."""
        return Counter(one.guarantee for one in self.violations)

    def check(
        self,
        guarantee: Guarantee,
        is_kept: bool,
        sentence: str,
        read: str = "",
        keys: Iterable[str | None] = (),
    ) -> None:
        """Count a check, and note the violation if there is one."""
        self.checked[guarantee] += 1
        if not is_kept:
            self.add(guarantee, sentence, read, keys)

    def add(
        self, guarantee: Guarantee, sentence: str, read: str = "", keys: Iterable[str | None] = ()
    ) -> None:
        """Note a violation of something that was counted elsewhere."""
        # A message and its change mostly name the same record: a user would look for a second one
        # (test_checks_and_violations).
        named = tuple(dict.fromkeys(key for key in keys if key is not None))
        self.violations.append(Violation(guarantee, sentence, read, named))

    def rows(self) -> Iterator[tuple[Guarantee, int, int]]:
        """Yield each guarantee with the number of checks and of violations, also those that nothing has checked."""
        broken = self.broken
        for guarantee in Guarantee:
            yield guarantee, self.checked[guarantee], broken.get(guarantee, 0)
