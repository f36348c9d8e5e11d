"""The one error of this room."""

from sowline.errors import SowlineError


class FilterError(SowlineError):
    """A text is not a filter. `column` (1-based) is where in the text the trouble begins."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__("bad filter", message)
        self.column = column
