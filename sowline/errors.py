"""The one exception that Sowline raises on purpose."""


class SowlineError(Exception):
    """Something expected went wrong: `reason` is a code of `sowline/reasons.py`, the text says what to do.

    The text states what was expected, what came, and what to do next. Both travel over the wire as they are.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
