"""The one exception that Sowline raises on purpose, and the sentence about all others."""


class SowlineError(Exception):
    """Something expected went wrong: `reason` is a code of `contract/reasons/`, the text says what to do.

    The text states what was expected, what came, and what to do next. Both travel over the wire as they are.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class StartAgain(Exception):
    """A worker, a runner or a copy ends. The next one can continue from what was committed."""


def fault_sentence(expected: str, error: BaseException | None, service: str) -> str:
    """Return the message about an unforeseen exception, whose notes name the position."""
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return (
        f"expected to {expected}, got {type(error).__name__}: {error}{notes}. This is a fault of Sowline: report it"
        f" with the traceback in the log, and restart {service} with a version that fixes it"
    )
