"""Errors of the core: stored state that can't be trusted, and a record that can't be applied in this batch."""

from sowline.errors import StartAgain


class StoreDamaged(StartAgain):
    """The content of the store can't be trusted: close it and recover the partition from another source."""


class NotApplicable(Exception):
    """An unforeseen exception while the log record at `offset` was applied; it is the cause of this one.

    It is no refusal. A refusal is the same at each replay, and this one may be gone with the next version.
    """

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


class NeedsOwnSteps(Exception):
    """The log record at `offset` makes more changes than one step may hold: apply it in a batch of its own."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset
