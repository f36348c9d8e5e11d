"""The format number of state, changes and backups, and the error for a number that this version does not know.

Data without a number is older than the numbers, and has format 1. Formats differ in names only: 2 has `checkpoint`
for `head` in stored state, and `emitted_in` for `said_in` in changes.
"""

from typing import Any, Final

from sowline.errors import SowlineError
from sowline.version import __version__

FORMAT: Final = 2
"""The format that this version writes."""

FIRST_FORMAT: Final = 1
"""The format of what carries no number. It is read, and never written."""

BY: Final = __version__
"""The version that wrote it, which stands next to the number."""


class UnknownFormat(SowlineError):
    """Something was written by a version that this one does not know: it is left as it is."""

    def __init__(self, what: str, number: Any, by: Any) -> None:
        writer = f"Sowline {by}" if isinstance(by, str) else "another version of Sowline"
        super().__init__(
            "unknown format",
            f"expected {what} of format {FIRST_FORMAT} or {FORMAT}, got one of format {number!r:.40}, written by "
            f"{writer:.60}. It is left as it is: run that version or a newer one, for this is Sowline {BY}",
        )


def require_format(what: str, number: Any, by: Any) -> None:
    """Raise `unknown format` unless this version reads the number; `what` names its owner in the error."""
    if type(number) is not int or number not in (FIRST_FORMAT, FORMAT):
        raise UnknownFormat(what, number, by)
