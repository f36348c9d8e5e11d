"""Tries other nodes when one fails, until a request is answered or the time is over."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Protocol, TypeVar

from sowline.errors import SowlineError
from sowline_gateway.nodes.connections import NodeLost, ReusedConnectionEnded
from sowline_gateway.nodes.node_set import RETRY_REASONS, NodeSet
from sowline_gateway.nodes.routing import UNAVAILABLE, Route, Share, unavailable

FAILOVER_SECONDS = 5.0
"""How long a request looks for nodes that answer."""

WAIT_SECONDS = 0.25
"""The longest time between two attempts, if no node announces itself in between."""

AGAIN_SECONDS = 0.25
"""The shortest time between two starts of a subscription: a node may accept one and end it each time."""

T = TypeVar("T")


class NodesFailed(Exception):
    """Some nodes can't answer a request that others may answer: their URLs, and the reason."""

    def __init__(self, urls: Collection[str], error: SowlineError) -> None:
        super().__init__(error.message)
        self.urls = urls
        self.error = error


async def with_failover(
    nodes: NodeSet,
    attempt: Callable[[Collection[str]], Awaitable[T]],
    waiting: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
) -> T:
    """Return the result of `attempt`, which gets the URLs to avoid and raises `NodesFailed` to be repeated.

    Within `waiting` it waits for nodes. Raise the last error when the time is over, and any other error at once.
    """
    deadline = time.monotonic() + FAILOVER_SECONDS
    avoid: set[str] = set()
    why: SowlineError | None = None
    while True:
        try:
            return await attempt(avoid)
        except NodesFailed as failed:
            why = failed.error
            avoid.update(failed.urls)
        except SowlineError as error:
            if error.reason != UNAVAILABLE:
                raise
            # The error of a node says more than that no other node is left (test_a_replica_that_stays_behind).
            why = why if avoid and why is not None else error
            # The nodes that failed may be the only ones: ask them again after a pause.
            avoid.clear()
            async with waiting():
                await nodes.announcements.wait_for_news(WAIT_SECONDS)
                if time.monotonic() > deadline:
                    raise why from None


@asynccontextmanager
async def replaceable(nodes: NodeSet, url: str, share: Share) -> AsyncIterator[None]:
    """Raise `NodesFailed` for an error of the node within the block that another node may not have."""
    try:
        yield
    # The node is not to blame: it is not avoided, and may be asked again at once.
    except ReusedConnectionEnded:
        raise NodesFailed([], unavailable(share)) from None
    except NodeLost:
        nodes.lost(url)
        raise NodesFailed([url], unavailable(share)) from None
    except SowlineError as error:
        if error.reason in RETRY_REASONS:
            raise NodesFailed([url], error) from None
        raise


class NodePart(Protocol):
    """One node's contribution to an answer or a subscription."""

    has_begun: bool

    @property
    def share(self) -> Share:
        """The partitions that the node answers for."""


P = TypeVar("P", bound=NodePart)


def replaced(
    parts: Sequence[P], wanted: Sequence[Route], new: Callable[[Route], P]
) -> tuple[list[P], list[P]]:
    """Return the parts to end, and those for the wanted routes: parts that have begun stay, others are new."""
    # A part that has begun stays: its instant is as good as a new one.
    begun = {part.share: part for part in parts if part.has_begun}
    assert len(begun) == sum(part.has_begun for part in parts), "no partition has two parts"
    kept = [begun.get(route.share) or new(route) for route in wanted]
    return [part for part in parts if not any(part is one for one in kept)], kept


async def begin_each(begins: Iterable[Awaitable[None]]) -> None:
    """Wait until all parts have begun or failed.

    Raise the error of the request, or `NodesFailed` with all nodes that failed.
    """
    failures = await asyncio.gather(*begins, return_exceptions=True)
    errors = [failure for failure in failures if failure is not None]
    failed = [error for error in errors if isinstance(error, NodesFailed)]
    # An error of the request itself comes first: no other node would answer it.
    for error in errors:
        if not isinstance(error, NodesFailed):
            raise error
    if failed:
        raise NodesFailed([url for one in failed for url in one.urls], failed[0].error)
