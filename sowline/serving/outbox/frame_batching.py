"""Sends waiting messages to clients in rounds, so that messages of one round share frames."""

import asyncio
from collections.abc import Callable

import structlog

log = structlog.get_logger()

WAIT_SECONDS_MIN = 0.001
"""The shortest time that the event loop can wait."""

WAIT_SECONDS_MAX = 0.05


class FrameBatching:
    """Wakes, in rounds, the writers of outboxes that have received their first message.

    After an idle time a round starts at once. A frame with many messages costs little more than a frame with one. So
    the next round waits half as long as the last one took, which leaves a third of the loop's time to other tasks.
    """

    def __init__(self) -> None:
        self._due: list[Callable[[], None]] = []
        self._is_called = False
        self._not_before = 0.0

    def add(self, wake: Callable[[], None]) -> None:
        """Call `wake` in the next round."""
        self._due.append(wake)
        if not self._is_called:
            self._call()

    def _call(self) -> None:
        assert not self._is_called, "one round at a time is to come"
        self._is_called = True
        asyncio.get_running_loop().call_at(self._not_before, self._run)

    def _run(self) -> None:
        assert self._is_called, "a round was asked for"
        loop = asyncio.get_running_loop()
        due, self._due = self._due, []
        began = loop.time()
        for wake in due:
            # A writer that fails must not end the round: without its end, no client would be woken again
            # (test_a_writer_that_fails_does_not_stop_the_others).
            try:
                wake()
            except Exception:
                log.exception("writer failed")
        loop.call_soon(self._end, began)

    def _end(self, began: float) -> None:
        """End the round after the writers have run, and set the time of the next one."""
        assert self._is_called, "a round ends once"
        now = asyncio.get_running_loop().time()
        # After a round of ten seconds, no client waits for five more (test_no_client_waits_long).
        assert now >= began, "a round does not end before it begins"
        wait = min((now - began) / 2, WAIT_SECONDS_MAX)
        self._not_before = now + wait if wait >= WAIT_SECONDS_MIN else now
        self._is_called = False
        if self._due:
            self._call()
