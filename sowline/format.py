"""The number of the form in which state, changes and backups are written, and what is said where it is another's.

What carries no number was written before there were numbers, and has the first form.
"""

from typing import Any, Final

from sowline import __version__
from sowline.errors import SowlineError

FORMAT: Final = 1
"""The form that this version writes, and the only one that it reads."""

BY: Final = __version__
"""What stands beside the number: the version that wrote it."""


class UnknownFormat(SowlineError):
    """Something was written by a version that this one does not know: it is left as it is."""

    def __init__(self, what: str, number: Any, by: Any) -> None:
        writer = f"Sowline {by}" if isinstance(by, str) else "another version of Sowline"
        super().__init__(
            "unknown format",
            f"expected {what} of format {FORMAT}, got one of format {number!r:.40}, written by {writer:.60}. It "
            f"is left as it is: run that version or a newer one, for this is Sowline {BY}",
        )


def require_format(what: str, number: Any, by: Any) -> None:
    """Raise `unknown format` unless the number is the one that this version reads; `what` is its owner's name."""
    if type(number) is not int or number != FORMAT:
        raise UnknownFormat(what, number, by)
