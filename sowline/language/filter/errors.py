"""The error that this package raises."""

from sowline.errors import SowlineError


class FilterError(SowlineError):
    """A text is not a valid filter. `column` (1-based) is the position of the error in the text."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__("bad filter", message)
        self.column = column
