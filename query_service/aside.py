"""Work that would keep the event loop from its other clients: done in a thread, one piece after the other.

More threads would do no more of it, and each of them would make the event loop wait for its turn.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from sowline.wire import Request

ASIDE_BYTES_MIN = 16 * 1024
"""What is smaller is looked at faster than a thread is told to."""

FILTER_CHAR_BYTES = 16
"""A character of a filter, or of what computes, takes as long as so many bytes of a body."""

P = ParamSpec("P")
T = TypeVar("T")

_thread = ThreadPoolExecutor(1, "aside")


def reading_bytes(request: Request) -> int:
    """Return how long it takes to understand a request, as the bytes of a body that take as long."""
    texts = (request.filter, request.condition, request.options)
    return len(request.data) + FILTER_CHAR_BYTES * sum(map(len, texts))


async def aside(size: int, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Return what the work on so many bytes returns; of a few, it is done at once."""
    if size < ASIDE_BYTES_MIN:
        return work(*given, **named)
    return await asyncio.wrap_future(_thread.submit(work, *given, **named))
