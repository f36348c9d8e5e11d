"""What is known of a reason code."""

from typing import NamedTuple


class Reason(NamedTuple):
    """A reason code, for a person who meets it: an `example` of a message; `meaning` and `cure` as Markdown.

    The `cure` says what to do next, also where the message does.
    """

    code: str
    example: str
    meaning: str
    cure: str
