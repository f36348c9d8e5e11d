"""The error for a value that doesn't fit a schema, with the path to the value."""

from typing import Any, Final

from sowline.errors import SowlineError
from sowline.model.path import Path, Step

PATH_TEXT_MAX: Final = 300
"""The number of characters of a path in a message: keys of maps can be long."""


class SchemaMisfit(Exception):
    """A value, or a part of a schema, is not what was expected. Each caller adds its step to the path."""

    def __init__(self, expected: str, got: str, reason: str = "bad message") -> None:
        super().__init__(expected)
        self.expected = expected
        self.got = got
        self.reason = reason
        self.steps: list[Step] = []
        """The path, innermost step first."""

    def error(self, reason: str = "") -> SowlineError:
        """Return the error to raise; `reason` replaces the misfit's own reason."""
        path = str(Path(tuple(reversed(self.steps)))) if self.steps else "the record"
        if len(path) > PATH_TEXT_MAX:
            path = f"{path[:PATH_TEXT_MAX]}..."
        return SowlineError(reason or self.reason, f"{path}: expected {self.expected}, got {self.got}")


def excerpt(value: Any) -> str:
    """Return a short text that shows a value of JSON in a message."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case dict():
            return "an object"
        case list():
            return "an array"
        # Cut: a text of megabytes would be in the answer to its writer, in the dead letter and in the log
        # (test_an_excerpt_shows_a_value_of_json).
        case str() | bytes():
            return repr(value[:60])
        case _:
            return str(value)
