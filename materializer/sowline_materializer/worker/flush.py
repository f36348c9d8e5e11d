"""Flushes the stores of a worker: commits reach the disk every second, or sooner if there are many."""

import time
from typing import Final

from sowline.model.limits import MIB
from sowline.runtime.store_memory import return_freed_memory
from sowline_materializer.worker.counts import Counts
from sowline_materializer.worker.owned import OwnedPartitions

FLUSH_SECONDS: Final = 1.0
"""How often the stores are flushed: about how much of the log a worker that was killed applies again."""

FLUSH_BYTES_MAX: Final = 64 * MIB
"""How much all stores of a worker together may keep in memory before they are flushed."""

RETURN_SECONDS: Final = 5.0
"""How often freed memory is returned to the system. In between, about 20 MiB gather at the highest rate."""


class Flush:
    """Decides when the stores are flushed; counts the time that it takes."""

    def __init__(self, owned: OwnedPartitions, counts: Counts) -> None:
        self._owned = owned
        self._counts = counts
        self._next = 0.0
        self._return_at = 0.0

    def flush_due(self) -> None:
        """Flush all stores if a second has passed, or if they keep too much in memory; raise what a commit raises."""
        now = time.monotonic()
        stores = self._owned.stores.values()
        if now < self._next and sum(store.pending_bytes for store in stores) < FLUSH_BYTES_MAX:
            return
        self._next = now + FLUSH_SECONDS
        began = time.perf_counter()
        for store in stores:
            store.flush()
        self._counts.flush_seconds += time.perf_counter() - began
        if now >= self._return_at:
            self._return_at = now + RETURN_SECONDS
            # After the stores let go of what they kept. Without it, a materializer of ten million keys has a fifth
            # more memory than it uses.
            return_freed_memory()
