"""What is known of a reason code."""

from typing import NamedTuple


class Reason(NamedTuple):
    """A reason code, for a person who meets it: an `example` of a message; `meaning` and `cure` as Markdown.

    There is no `cure` where the message says it, or where there is nothing to do.
    """

    code: str
    example: str
    meaning: str
    cure: str | None = None
