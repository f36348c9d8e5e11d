"""Work that would keep the event loop from its other clients: done in a thread, one piece after the other.

More threads would do no more of it, and each of them would make the event loop wait for its turn.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from sowline.protocol.request import Request

THREAD_BYTES_MIN = 16 * 1024
"""Smaller work takes less time than handing it to a thread."""

FILTER_CHAR_BYTES = 16
"""A character of a filter, or of what computes, takes as long as so many bytes of a body."""

SOW_KEY_BYTES = 64
"""A SOW key takes as long as so many bytes of a body."""

P = ParamSpec("P")
T = TypeVar("T")

_thread = ThreadPoolExecutor(1, "checks")


def bytes_to_read(request: Request) -> int:
    """Return how long it takes to check a request, as the bytes of a body that take as long."""
    texts = (request.filter, request.condition, request.options)
    keys = SOW_KEY_BYTES * len(request.sow_keys)
    return len(request.data) + keys + FILTER_CHAR_BYTES * sum(map(len, texts))


async def in_worker_thread(size: int, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Return what the work on so many bytes returns; of a few, it is done at once."""
    if size < THREAD_BYTES_MIN:
        return work(*given, **named)
    return await asyncio.wrap_future(_thread.submit(work, *given, **named))
