"""Sorts many records in one thread, in steps, so that the event loop and other queries continue."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from heapq import merge
from itertools import islice
from typing import Any, ParamSpec, TypeVar

RUN = 5_000
"""Records to sort in one step."""

LARGE = 20_000
"""The number of records from which work on them is done in the thread."""

P = ParamSpec("P")
T = TypeVar("T")

# Each busy thread keeps the interpreter lock for up to five milliseconds, and the event loop asks for the lock after
# each of its calls of the system. With a thread for each of eight queries, a probe took half a second.
_thread = ThreadPoolExecutor(1, "sorting")


async def in_sorting_thread(records: int, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """Return the result of work on `records` records; do it in the thread if they are many."""
    if records <= LARGE:
        return work(*given, **named)
    return await asyncio.wrap_future(_thread.submit(work, *given, **named))


async def sorted_in_turns(keys: list[T]) -> list[T]:
    """Return the keys in ascending order; sorts of several queries take turns."""
    if len(keys) <= LARGE:
        return sorted(keys)  # type: ignore[type-var]
    # One long sort would keep the interpreter lock, in a thread, too.
    runs: list[Any] = [
        await in_sorting_thread(len(keys), sorted, keys[start : start + RUN])
        for start in range(0, len(keys), RUN)
    ]
    merged, done = merge(*runs), list[T]()
    while len(done) < len(keys):
        done += await in_sorting_thread(len(keys), list, islice(merged, RUN))
    return done
