"""The worker thread: runs work that would block the event loop, one piece after the other.

More threads would not be faster, because they share one interpreter lock, and the event loop would wait for each.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from msgspec import Raw

THREAD_BYTES_MIN = 16 * 1024
"""Work on fewer bytes takes less time than passing it to a thread."""

FILTER_CHAR_BYTES = 16
"""A character of a filter, a condition or options takes as long as this many bytes of a body."""

SOW_KEY_BYTES = 64
"""A SOW key takes as long as this many bytes of a body."""

NOTHING = Raw(b"")

Waiting = Coroutine[Any, Any, None] | None
"""The rest of a command: work that must be done before the next command is read, if any."""

P = ParamSpec("P")
T = TypeVar("T")

_thread = ThreadPoolExecutor(1, "checks")


def bytes_to_read(*texts: str, sow_keys: Sequence[str] = (), data: Raw = NOTHING) -> int:
    """Return the time to check these parts of a request, in bytes of a body that take as long."""
    return len(data) + SOW_KEY_BYTES * len(sow_keys) + FILTER_CHAR_BYTES * sum(map(len, texts))


async def in_worker_thread(size_bytes: int, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Return the result of work on `size_bytes`; do it at once if they are few, otherwise in the thread."""
    if size_bytes < THREAD_BYTES_MIN:
        return work(*given, **named)
    return await asyncio.wrap_future(_thread.submit(work, *given, **named))


def with_result(
    size_bytes: int, use: Callable[[T], Waiting], work: Callable[P, T], *given: P.args, **named: P.kwargs
) -> Waiting:
    """Use the result of work on `size_bytes`: at once if they are few, otherwise when the thread has done it."""
    if size_bytes < THREAD_BYTES_MIN:
        return use(work(*given, **named))
    return _with_result_of_thread(size_bytes, use, work, *given, **named)


async def _with_result_of_thread(
    size_bytes: int, use: Callable[[T], Waiting], work: Callable[P, T], *given: P.args, **named: P.kwargs
) -> None:
    if (waiting := use(await in_worker_thread(size_bytes, work, *given, **named))) is not None:
        await waiting
