"""The deadline of each wait of the workload: a check ends with a verdict, whatever a service answers or doesn't."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from sowline.errors import SowlineError

T = TypeVar("T")

RETRY_SECONDS: Final = 0.2


class UnansweredError(SowlineError):
    """An answer that did not come in time, which ends the workload."""

    def __init__(self, message: str) -> None:
        super().__init__("request timeout", message)


class Patience:
    """How long a checker waits for each answer."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def answered(self, expected: str, answer: Awaitable[T]) -> T:
        """Wait for an answer; raise `UnansweredError` if it does not come."""
        try:
            async with asyncio.timeout(self.seconds):
                return await answer
        except TimeoutError:
            raise self._unanswered(expected, "nothing") from None

    async def until_answered(self, expected: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask again until a service can answer: it may be recovering from a fault."""
        refused = "nothing"
        try:
            async with asyncio.timeout(self.seconds):
                while True:
                    try:
                        return await ask()
                    # An inner deadline is over. Asked again, a service that is silent would be waited for many times
                    # (test_an_answer_that_did_not_come_within_another_wait).
                    except UnansweredError:
                        raise
                    except SowlineError as error:
                        refused = f"{error.reason}: {error}"
                    await asyncio.sleep(RETRY_SECONDS)
        except TimeoutError:
            raise self._unanswered(expected, refused) from None

    def _unanswered(self, expected: str, got: str) -> UnansweredError:
        return UnansweredError(f"expected {expected} within {self.seconds:g} s, got {got}")
