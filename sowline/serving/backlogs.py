"""The memory of answers that clients have not read yet, of a whole service."""

from sowline.errors import SowlineError

BACKLOG_BYTES_MIN = 128 * 1024
"""Bytes that may wait for each client, however many clients there are."""


class Backlogs:
    """The memory limit of all unread answers together, shared equally among the connected clients."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._share = max(BACKLOG_BYTES_MIN, bytes_max)
        self.unsent_bytes = 0
        """Bytes that wait for all clients."""

    @property
    def share(self) -> int:
        """Bytes that one outbox may hold."""
        # An outbox was filled while there were few clients, and keeps its messages when more connect: 1 GiB could
        # become 2.2 GiB (test_clients_that_come_one_after_the_other_stay_within_the_limit).
        return self._share if self.unsent_bytes < self.bytes_max else BACKLOG_BYTES_MIN

    def divide(self, outboxes: int) -> None:
        """Share the memory among this many outboxes."""
        self._share = max(BACKLOG_BYTES_MIN, self.bytes_max // max(1, outboxes))

    def require(self, size_bytes: int) -> None:
        """Raise `busy` if a whole answer of this size has no room."""
        if self.unsent_bytes + size_bytes > self.bytes_max and size_bytes > BACKLOG_BYTES_MIN:
            raise SowlineError(
                "busy",
                f"expected at most {self.bytes_max} bytes of answers that clients have not read, got {size_bytes}"
                f" more than the {self.unsent_bytes} that wait; try again later, or ask for less",
            )
