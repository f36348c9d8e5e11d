"""What Kafka did not accept of a publisher's commands: raised once, to all who wait for Kafka at that time."""

import logging
from collections.abc import Callable
from typing import Final

from sowline.errors import SowlineError

SILENT_SECONDS: Final = 5.0
"""How long a flush waits for Kafka before it logs that it waits."""

log = logging.getLogger("sowline")


class WriteFailures:
    """The first failure that was not raised yet, and the number of those that were."""

    # Once a connection is lost, many commands fail: the first error names the cause, and is raised once
    # (test_what_kafka_did_not_take_is_raised_once).

    def __init__(self) -> None:
        self._waiting: object | None = None
        self._raised: tuple[int, object | None] = (0, None)

    @property
    def raised(self) -> int:
        """The number of failures that were raised."""
        return self._raised[0]

    def note(self, error: object) -> None:
        """Note that a command failed."""
        self._waiting = self._waiting or error

    def raise_since(self, raised: int) -> None:
        """Raise the failure that waits, or one that was raised since that many."""
        # Read once: between a look and a second read, another thread may have taken it, and the reason would be None.
        # Noted as raised before it is taken: at any moment, a thread that flushes sees it as one or the other.
        waiting = self._waiting
        if waiting is not None:
            self._raised = self._raised[0] + 1, waiting
            self._waiting = None
        count, failure = self._raised
        if count != raised:
            raise SowlineError("not written", f"Kafka did not accept an earlier command: {failure}")


class FlushAttempt:
    """A wait until Kafka has everything that was written before, in two steps: who gives up takes no failure.

    The wait may go on in a thread after its caller has given up. So only `check`, which the caller calls after that,
    raises a failure. Flushes at the same time all raise it (test_flushes_at_the_same_time_all_raise).
    """

    def __init__(self, failures: WriteFailures, wait: Callable[[float], int], seconds: float) -> None:
        self._failures = failures
        self._raised = failures.raised
        self._wait = wait
        self._seconds = seconds
        self._left = 0

    def wait(self) -> None:
        """Wait for Kafka, and log a warning if that takes long."""
        self._left = self._wait(min(SILENT_SECONDS, self._seconds))
        if self._left and self._seconds > SILENT_SECONDS:
            # While a partition of the log has no leader, nothing else shows what the flush waits for
            # (test_a_flush_that_takes_long_is_logged).
            log.warning(
                "Kafka has not acknowledged %d commands in %g s; waiting up to %g s",
                self._left,
                SILENT_SECONDS,
                self._seconds,
            )
            self._left = self._wait(self._seconds - SILENT_SECONDS)

    def check(self) -> None:
        """Raise `not written` if Kafka did not accept something."""
        self._failures.raise_since(self._raised)
        if self._left:
            raise SowlineError(
                "not written", f"Kafka has not acknowledged {self._left} commands within {self._seconds:g} s"
            )
