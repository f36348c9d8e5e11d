"""The format number of state, changes and backups, and the error for a number that this version does not know.

Data without a format number has format 1. Format 2 only renames fields: `head` is now `checkpoint` in stored state,
and `said_in` is now `emitted_in` in changes.
"""

from typing import Any, Final

from sowline.errors import SowlineError
from sowline.version import __version__

FORMAT: Final = 2
"""The format that this version writes."""

FIRST_FORMAT: Final = 1
"""The format of data without a number. This version reads it and never writes it."""

BY: Final = __version__
"""The version of Sowline that is written next to the format number."""


class UnknownFormat(SowlineError):
    """Raised for data in a format that this version does not know. The data is left unchanged."""

    def __init__(self, what: str, number: Any, by: Any) -> None:
        writer = f"Sowline {by}" if isinstance(by, str) else "another version of Sowline"
        super().__init__(
            "unknown format",
            f"expected {what} of format {FIRST_FORMAT} or {FORMAT}, got one of format {number!r:.40}, written by "
            f"{writer:.60}. It is left unchanged: run that version or a newer one; this is Sowline {BY}",
        )


def require_format(what: str, number: Any, by: Any) -> None:
    """Raise `unknown format` unless this version reads format `number`; the error describes the data as `what`."""
    # In Python, True equals 1: a damaged number would count as the first format.
    if type(number) is not int or number not in (FIRST_FORMAT, FORMAT):
        raise UnknownFormat(what, number, by)
