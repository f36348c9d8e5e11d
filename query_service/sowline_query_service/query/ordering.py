"""Sorts the records that a query found: by the ranks of columns if there are any, otherwise by their bodies."""

from collections.abc import Callable, Iterator, Sequence
from heapq import nsmallest
from itertools import groupby
from typing import Any

import numpy as np
import orjson

from sowline.language.expressions.order import Order
from sowline.serving.cooperative import in_turns
from sowline.serving.sorting import in_sorting_thread, sorted_in_turns
from sowline_query_service.index.ranks import top
from sowline_query_service.index.rows import RowNumbers
from sowline_query_service.query.topic_slice import TopicSlice

Found = list[tuple[TopicSlice, RowNumbers]]
"""Topic slices of a query, each with the indices of records that match."""


async def in_order(found: Found, order: Order, first: int, end: int | None) -> Found:
    """Return the records from number `first` up to `end` of the order, in runs of records of one topic slice."""
    total = sum(len(indices) for _, indices in found)
    end = total if end is None else min(end, total)
    if first >= end:
        return []
    # Each topic numbers its own values: the ranks of two can't be compared (test_several_topics_are_one_order).
    if len(found) == 1 and found[0][0].ranks is not None:
        ((topic_slice, indices),) = found
        return [(topic_slice, (await in_sorting_thread(total, _by_ranks, topic_slice, indices, end))[first:])]
    keys = await in_turns(_keys(found, order))
    if end < total:
        chosen = await in_sorting_thread(total, nsmallest, end, keys)
    else:
        chosen = await sorted_in_turns(keys)
    return list(_runs(found, chosen[first:]))


def within(runs: Found, first: int, end: int) -> Found:
    """Return the records from number `first` up to `end` of the runs."""
    return _parts(runs, lambda passed: slice(max(0, first - passed), max(0, end - passed)))


def sampled(runs: Found, step: int) -> Found:
    """Return the last one of every `step` records of the runs."""
    return _parts(runs, lambda passed: slice(step - 1 - passed % step, None, step))


def _parts(runs: Found, part: Callable[[int], slice]) -> Found:
    """Return a part of each run, which depends on the number of records before the run."""
    parts, passed = [], 0
    for topic_slice, indices in runs:
        if len(some := indices[part(passed)]):
            parts.append((topic_slice, some))
        passed += len(indices)
    return parts


def _by_ranks(topic_slice: TopicSlice, indices: RowNumbers, end: int) -> RowNumbers:
    """Return the first `end` of the indices by the slice's ranks; those with equal ranks by SOW key."""
    ranks = [rank[indices] for rank in topic_slice.ranks or ()]
    inside = top(np.arange(len(indices)), ranks, [False] * len(ranks), end)
    indices, ranks = indices[inside], [rank[inside] for rank in ranks]
    if ranks:
        sorting = np.lexsort(ranks[::-1])
        indices, ranks = indices[sorting], [rank[sorting] for rank in ranks]
    # Sort keys only where ranks are equal: most orders have few ties, and keys are compared in Python
    # (test_ties_are_in_order_of_their_keys).
    keys = topic_slice.captured.keys
    for start, stop in _ties(ranks, len(indices)):
        if start >= end:
            break
        run = nsmallest(end - start, indices[start:stop].tolist(), key=keys.__getitem__)
        indices[start : start + len(run)] = run
    return indices[:end]


def _ties(ranks: Sequence[Any], rows: int) -> Iterator[tuple[int, int]]:
    """Return the start and end of each run of two or more equal ranks."""
    same = np.ones(max(0, rows - 1), bool)
    for rank in ranks:
        same &= rank[1:] == rank[:-1]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
    for start, stop in edges.reshape(-1, 2).tolist():
        yield start, stop + 1


def _keys(found: Found, order: Order) -> Iterator[tuple[Any, int, int]]:
    """Yield the sort key, the number of its slice, and the index of each record."""
    for number, (topic_slice, indices) in enumerate(found):
        keys, bodies = topic_slice.captured.keys, topic_slice.captured.bodies
        for at in indices.tolist():
            document = orjson.loads(bodies[at]) if order.terms else {}
            yield order.key(document, keys[at]), number, at


def _runs(found: Found, chosen: list[tuple[Any, int, int]]) -> Iterator[tuple[TopicSlice, RowNumbers]]:
    for number, run in groupby(chosen, key=lambda entry: entry[1]):
        yield found[number][0], np.array([at for _, _, at in run], np.int64)
