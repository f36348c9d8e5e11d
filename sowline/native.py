"""How Python and the native core share work: Python does the work that the native core can't do, or failed at."""

from collections.abc import Callable
from typing import Literal

from sowline.lazy_log import log

Core = Literal["native", "python"]

RUN_MAX = 64
"""How many items Python does at most before the native core is asked again."""

_panics = 0


def raise_unless_panic(error: BaseException, where: str) -> None:
    """Raise an error, unless it is a panic of the native core: that is logged and counted, and Python does the work.

    `where` is the partition, or the kind of work.
    """
    global _panics  # noqa: PLW0603 - counted for the process
    # Known only by its name: PyO3 exports no class for it, and derives it directly from BaseException.
    if type(error).__name__ != "PanicException":
        raise error
    _panics += 1
    log.error("native core failed", where=where, why=str(error))


def panics() -> int:
    """Return how often the native core has panicked in this process."""
    return _panics


def share(end: int, native: Callable[[int], int], python: Callable[[int, int], object]) -> None:
    """Do the items from 0 to `end` in order.

    `native` does the items from an index up to the first that it does not know, and returns the index of that item.
    `python` does those between two indexes. After an item that `native` does not know there are often more, so
    `python` takes longer and longer runs, up to `RUN_MAX`, until `native` knows an item again.
    """
    at, run = 0, 1
    while at < end:
        start, at = at, native(at)
        run = 1 if at > start else min(2 * run, RUN_MAX)
        if at < end:
            stop = min(at + run, end)
            python(at, stop)
            at = stop
