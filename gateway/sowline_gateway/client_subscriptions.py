"""The subscriptions of all clients of a gateway: how many are live, and the end of those of a topic that is gone."""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from sowline.errors import SowlineError


class ClientSubscription(Protocol):
    """A subscription of a client of the gateway."""

    @property
    def live_topics(self) -> Sequence[str]:
        """The topics in which it is live now."""


@dataclass(eq=False, slots=True)
class _Served:
    """A subscription, its topics, and the task that serves it."""

    subscription: ClientSubscription
    topics: Collection[str]
    task: asyncio.Task[object]
    error: SowlineError | None = None


class ClientSubscriptions:
    """The subscriptions that are served now."""

    def __init__(self) -> None:
        self._served: dict[_Served, None] = {}

    def __iter__(self) -> Iterator[ClientSubscription]:
        return (served.subscription for served in self._served)

    @contextmanager
    def serve(self, subscription: ClientSubscription, topics: Collection[str]) -> Iterator[None]:
        """Count a subscription while the current task serves it; raise the error with which `end` ends it."""
        task = asyncio.current_task()
        assert task is not None, "a task serves it"
        served = _Served(subscription, topics, task)
        self._served[served] = None
        try:
            yield
        except asyncio.CancelledError:
            # The client may have left meanwhile: then the task was cancelled twice, and nobody waits for the error.
            if served.error is None or task.uncancel():
                raise
            raise served.error from None
        finally:
            del self._served[served]

    def end(self, topic: str, error: SowlineError) -> None:
        """End the subscriptions to a topic with an error."""
        for served in list(self._served):
            if topic in served.topics and served.error is None:
                served.error = error
                served.task.cancel()

    def live(self) -> Counter[str]:
        """Return by topic how many are live."""
        return Counter(name for served in self._served for name in served.subscription.live_topics)
