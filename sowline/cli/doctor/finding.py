"""A finding: the result of one check of `sowline doctor`, and what to do about it."""

from dataclasses import asdict, dataclass
from typing import Final, Literal

Severity = Literal["ok", "note", "warning", "error"]

BEHIND_RECORDS_MAX: Final = 10_000
"""Records of a log that may wait without a finding: about as many as a busy system has in flight."""

CLOCK_MS_MAX: Final = 2_000
"""How far clocks may differ without a finding."""


@dataclass(frozen=True)
class Finding:
    """The result of one check: a stable code, a severity, where, what was expected and found, what to do."""

    code: str
    severity: Severity
    where: str
    expected: str
    found: str
    advice: str = ""

    def fields(self) -> dict[str, str]:
        """Return the fields by name."""
        return asdict(self)

    def sentence(self) -> str:
        """Return the sentence for a person, without the advice."""
        if self.severity == "ok":
            return f"{self.where}: {self.found}"
        return f"{self.where}: expected {self.expected}, found {self.found}"


def count(number: int, what: str) -> str:
    """Return a number of things with its noun."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def few(names: list[str]) -> str:
    """Return the first of many things."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
