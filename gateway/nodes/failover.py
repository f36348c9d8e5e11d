"""Tries other nodes when one fails, until a request is answered or the time is over."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import TypeVar

from gateway.nodes.connections import NodeLost, ReusedConnectionEnded
from gateway.nodes.node_set import RETRY_REASONS, NodeSet
from gateway.nodes.routing import UNAVAILABLE, Share, unavailable
from sowline.errors import SowlineError

FAILOVER_SECONDS = 5.0
"""How long a request looks for nodes that answer."""

WAIT_SECONDS = 0.25
"""The longest time between two attempts, if no node announces itself meanwhile."""

AGAIN_SECONDS = 0.25
"""The shortest time between two beginnings of a subscription: a node may accept one and end it each time."""

T = TypeVar("T")


class NodesFailed(Exception):
    """Nodes that can't answer a request which others may answer, by URL, and why."""

    def __init__(self, urls: Collection[str], error: SowlineError) -> None:
        super().__init__(error.message)
        self.urls = urls
        self.error = error


async def with_failover(nodes: NodeSet, attempt: Callable[[Collection[str]], Awaitable[T]]) -> T:
    """Return the result of an attempt; it gets the URLs to avoid, and raises `NodesFailed` to be repeated.

    Raise the last error when the time is over, and any other error at once.
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
            await nodes.announcements.next_news(WAIT_SECONDS)
            if time.monotonic() > deadline:
                raise why from None


@asynccontextmanager
async def replaceable(nodes: NodeSet, url: str, share: Share) -> AsyncIterator[None]:
    """Raise `NodesFailed` for an error of the node within the block that another node may not have."""
    try:
        yield
    except ReusedConnectionEnded:
        raise NodesFailed([], unavailable(share)) from None
    except NodeLost:
        nodes.lost(url)
        raise NodesFailed([url], unavailable(share)) from None
    except SowlineError as error:
        if error.reason in RETRY_REASONS:
            raise NodesFailed([url], error) from None
        raise
