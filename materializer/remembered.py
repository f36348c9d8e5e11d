"""The deleted records that a partition remembers for their publishers' numbers, and when it may forget them."""

from collections import deque
from collections.abc import Iterable

from materializer.record import decode_record
from materializer.store import Store
from materializer.view import View


class Remembered:
    """Deleted records as (log time in ms, SOW key), in the order in which they went."""

    def __init__(self, oldest_first: Iterable[tuple[int, bytes]]) -> None:
        self._gone = deque(oldest_first)

    def add(self, time: int, key: bytes) -> None:
        """Take in a record that was deleted just now."""
        self._gone.append((time, key))

    def forget(self, view: View, since: int) -> None:
        """Drop those whose numbers are from before `since`: nothing can depend on them."""
        while self._gone and self._gone[0][0] < since:
            _, key = self._gone.popleft()
            record = view.get(key)
            if record is not None and record.is_forgettable and record.time < since:
                view.put(key, None)


def remembered_by(store: Store) -> Remembered:
    """Look through a store for them."""
    gone = ((key, decode_record(data)) for key, data in store.scan() if not data[0])
    return Remembered(sorted((record.time, key) for key, record in gone))
