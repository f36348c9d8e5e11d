"""What every simulated world needs: a loop, clocks that are played, and the outcome of a run."""

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sowline.native import Core
from sowline.runtime.native import native_core
from tests.property.clock import ClockLoop
from tests.simulation import strands
from tests.waiting import loop_turns

BEGIN_MS = 1_700_000_000_000
LAG_MS = 30_000
"""How long an event of the changes topic is safe from compaction here."""

STEPS = 120
TRACE_LINES = 60

CORES: Sequence[Core] = ("python", "native") if native_core(None) else ("python",)
"""The cores of the workers and the query services: one may take over from the other."""


@dataclass
class Outcome:
    """What a run was like; `error` is what went wrong."""

    seed: int
    steps: int
    faults: frozenset[str]
    trace: list[str]
    error: BaseException | None
    counts: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        checkpoint = (
            f"seed {self.seed}, {self.steps} steps, faults: {', '.join(sorted(self.faults)) or 'none'}"
        )
        if self.error is None:
            return f"{checkpoint}: as it should be"
        return "\n".join(
            [checkpoint, *self.trace[-TRACE_LINES:], f"{type(self.error).__name__}: {self.error}"]
        )


class Loop(ClockLoop):
    """A loop whose strands call into it while it waits for them. It has no files to look at."""

    def __init__(self) -> None:
        super().__init__()
        self._selector.select = self._nothing  # type: ignore[attr-defined]

    @staticmethod
    def _nothing(timeout: float | None = None) -> list[Any]:
        assert timeout == 0, "expected something to do"
        return []

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """Call it in the loop; only one of loop and strands ever runs."""
        return self.call_soon(callback, *args, context=context)


def for_us(played: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
    """Return the clock that is played; for threads that earlier tests have left running the real one.

    They look at it at moments that no seed decides, and each look may make the next step a slow one.
    """
    simulating = threading.get_ident()

    def clock(*arguments: Any) -> Any:
        strand = strands.Strand.current
        is_ours = threading.get_ident() == (simulating if strand is None else strand.ident)
        return (played if is_ours else real)(*arguments)

    return clock


async def one_by_one(batches: Any) -> Any:
    """Yield batches, and let others run in between."""
    for batch in batches:
        yield batch
        await loop_turns()


@contextmanager
def uncollected() -> Iterator[None]:
    """Collect no garbage: what that ends, generators among it, would end at a moment that no seed decides."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
