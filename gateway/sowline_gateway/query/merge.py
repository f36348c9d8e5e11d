"""Merges the sorted records of several nodes: each has sent its first ones, in order."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from heapq import heapify, heappop, heapreplace, merge
from itertools import islice, repeat
from typing import Any

from sowline.serving.cooperative import in_turns
from sowline_gateway.query.part import Batch

PORTION_RECORDS = 1000

Key = tuple[Any, ...]


class _Sorted:
    """The sorted records of one node, read batch by batch."""

    def __init__(self, batches: AsyncIterator[Batch], keys_of: Callable[[Batch], Sequence[Key]]) -> None:
        self._batches = batches
        self._keys_of = keys_of
        self._batch = Batch("", [], [])
        self._keys: Sequence[Key] = ()
        self._at = 0

    async def fetch(self) -> bool:
        """Move to the first record of the next batch that has one; return whether there is one."""
        async for batch in self._batches:
            if batch.records:
                self._batch, self._keys, self._at = batch, self._keys_of(batch), 0
                return True
        return False

    def step(self) -> bool:
        """Move to the next record of the batch; return whether there is one."""
        self._at += 1
        return self._at < len(self._batch.records)

    @property
    def key(self) -> Key:
        """The sort key of the record."""
        return self._keys[self._at]

    @property
    def record(self) -> tuple[str, bytes, list[Any]]:
        """The topic of the record, the record, and the values that it is sorted by."""
        return self._batch.topic, self._batch.records[self._at], self._batch.ordering[self._at]


async def merged(
    parts: Sequence[AsyncIterator[Batch]],
    keys_of: Callable[[Batch], Sequence[Key]],
    first: int,
    end: int | None,
) -> AsyncIterator[Batch]:
    """Yield the records from number `first` up to `end` of all parts together, in the order of their keys.

    Each part must have its own first `end` records, in the order of their keys. No two records have the same key.
    """
    runs = [_Sorted(batches, keys_of) for batches in parts]
    heap = [(run.key, number) for number, run in enumerate(runs) if await run.fetch()]
    heapify(heap)
    taken, portion = 0, Batch("", [], [])
    while heap and (end is None or taken < end):
        _, number = heap[0]
        topic, record, values = runs[number].record
        if taken >= first:
            # A message to the client has records of one topic only.
            if topic != portion.topic or len(portion.records) == PORTION_RECORDS:
                if portion.records:
                    yield portion
                portion = Batch(topic, [], [])
            portion.records.append(record)
            portion.ordering.append(values)
        taken += 1
        if runs[number].step() or await runs[number].fetch():
            heapreplace(heap, (runs[number].key, number))
        else:
            heappop(heap)
    if portion.records:
        yield portion
    for batches in parts:
        async for _ in batches:
            pass  # the counts of a part follow its records


async def surely_before(samples: Sequence[Sequence[Key]], step: int, first: int) -> list[int]:
    """Return how many records at the beginning of each part are among the first `first` of all parts together.

    `samples` are the keys of the last one of every `step` records of each part, in order.
    """
    # The n-th sample of all parts ends n whole steps. Each other part may have up to step - 1 more records before it.
    steps = max(0, first - (len(samples) - 1) * (step - 1)) // step
    ordered = merge(*(zip(keys, repeat(number)) for number, keys in enumerate(samples)))
    passed = Counter(number for _, number in await in_turns(islice(ordered, steps)))
    return [passed[number] * step for number in range(len(samples))]
