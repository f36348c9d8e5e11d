"""Limits how many subscriptions read missed changes at a time, because each needs its own connections to the nodes.

A subscription that gets a new snapshot needs no slot: snapshots have their own limit.
"""

import asyncio

CLIENT_MAX = 8
"""The maximum number of one client's subscriptions that catch up at a time."""

GATEWAY_MAX = 256
"""The maximum number of all clients' subscriptions that catch up at a time."""


class CatchUpSlot:
    """The turn of one subscription to catch up. Take it again after `free`."""

    def __init__(self, of_client: asyncio.Semaphore, of_all: asyncio.Semaphore) -> None:
        self._of_client = of_client
        self._of_all = of_all
        self.is_taken = False

    async def take(self) -> bool:
        """Wait until the subscription may catch up, and return whether it had to."""
        if self.is_taken:
            return False
        has_to_wait = self._of_client.locked() or self._of_all.locked()
        # The client's limit first: in the other order, a client with many subscriptions would hold the turns of all
        # clients while it waits for its own.
        await self._of_client.acquire()
        try:
            await self._of_all.acquire()
        except BaseException:
            self._of_client.release()
            raise
        self.is_taken = True
        return has_to_wait

    def free(self) -> None:
        """Let another subscription catch up; do nothing if it was not taken."""
        if self.is_taken:
            self.is_taken = False
            self._of_all.release()
            self._of_client.release()
