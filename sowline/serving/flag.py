"""An event that takes little memory while nobody waits for it."""

import asyncio


class Flag:
    """Works as `asyncio.Event` does, for objects of which each connection has several.

    An `asyncio.Event` has a queue from the start, and uses more than 1 KB. A flag has one only while somebody waits.
    """

    __slots__ = ("_is_set", "_waiting")

    def __init__(self, *, is_set: bool = False) -> None:
        self._is_set = is_set
        self._waiting: list[asyncio.Future[None]] | None = None

    def is_set(self) -> bool:
        """Return whether the flag is set."""
        return self._is_set

    def set(self) -> None:
        """Set the flag, and wake all waiting tasks in the order in which they began to wait."""
        self._is_set = True
        waiting, self._waiting = self._waiting, None
        for one in waiting or ():
            if not one.done():
                one.set_result(None)

    def clear(self) -> None:
        """Clear the flag: from now on, `wait` waits."""
        self._is_set = False

    async def wait(self) -> None:
        """Wait until the flag is set; return at once if it is."""
        if self._is_set:
            return
        waking = asyncio.get_running_loop().create_future()
        if self._waiting is None:
            self._waiting = []
        self._waiting.append(waking)
        try:
            await waking
        except BaseException:
            # A flag may stay clear for hours while cancelled tasks leave it (test_who_has_gone_is_not_woken).
            if self._waiting is not None and waking in self._waiting:
                self._waiting.remove(waking)
            raise
