"""The error of this package: a text that is not a delta or a condition, with the position of the problem."""

from sowline.errors import SowlineError

BAD_DELTA = "bad delta"
BAD_CONDITION = "bad condition"

EXCERPT_CHARS_MAX = 40


class DocumentError(SowlineError):
    """A text is not a delta (`bad delta`), or not a condition (`bad condition`).

    `position` (0-based) is where the problem starts in the text. The message gives it as a column, counted from 1,
    and also as a line if the text has several lines.
    """

    def __init__(self, reason: str, message: str, position: int) -> None:
        super().__init__(reason, message)
        self.position = position


def location(text: str, position: int) -> str:
    """Return a position in words: `column 5`, or `line 2, column 5` if the text has several lines."""
    if "\n" not in text:
        return f"column {position + 1}"
    line = text.count("\n", 0, position) + 1
    return f"line {line}, column {position - text.rfind(chr(10), 0, position)}"


def excerpt(text: str) -> str:
    """Return the text, or the beginning of a long one."""
    return text if len(text) <= EXCERPT_CHARS_MAX else text[: EXCERPT_CHARS_MAX - 3] + "..."
