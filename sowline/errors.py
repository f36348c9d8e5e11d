"""The one exception that Sowline raises on purpose, and the one that it knows of the native core."""


class SowlineError(Exception):
    """Something expected went wrong: `reason` is a code of `sowline/reasons.py`, the text says what to do.

    The text states what was expected, what came, and what to do next. Both travel over the wire as they are.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def is_panic(error: BaseException) -> bool:
    """Return whether the native core failed: Python can do the same instead."""
    # PyO3's exception for a panic has no other base, so that nobody takes it for an error of a caller.
    return type(error).__name__ == "PanicException"
