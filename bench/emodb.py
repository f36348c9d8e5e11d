"""Deltas of documents, read and applied, as ratios to `json.loads` of a patch and a dict update.

The documents are orders of about 0.9 KB; a patch changes two fields of each. All texts differ, except where one is
reused. Everything runs in one thread, and CPU time is reported.
"""

import json
import statistics
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from bench.orders import bodies_of
from sowline.language.emodb import Delta, compile_condition, parse_delta, use_native
from sowline.language.emodb.fold import Document, DocumentDelta, change_id_of_position, fold
from sowline.language.emodb.parse import read_delta
from sowline.runtime.native import native_core

DOCUMENTS_MAX = 2_000
"""More of them would not change the result."""

PATCH = "json.loads of a patch, dict update"
SAME = "map of 2 fields, one text for all"
CONDITION = compile_condition('{..,"status":"open","qty":gt(300),"price":lt(60)}')

Documents = Sequence[dict[str, Any]]
Task = Callable[[Documents], None]


def run(records: int, runs: int) -> None:
    """Measure in turn, and print medians and ratios."""
    bodies = bodies_of(min(records, DOCUMENTS_MAX))
    print(f"{len(bodies):,} documents of {len(bodies[0])} bytes, one thread, CPU time", flush=True)
    report(measure([json.loads(body) for body in bodies], runs))


def measure(documents: Documents, runs: int) -> dict[str, float]:
    """The median microseconds of CPU time of each task, for one document; the tasks take turns."""
    tasks = _tasks(documents)
    micros: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(runs):
        for name, task in tasks.items():
            began = time.process_time()
            task(documents)
            micros[name].append((time.process_time() - began) / len(documents) * 1e6)
    return {name: statistics.median(taken) for name, taken in micros.items()}


def report(micros: dict[str, float]) -> None:
    """Print one line for each task."""
    for name, taken in micros.items():
        print(f"  {name:36} {taken:8.2f} µs {1e6 / taken:>9,.0f}/s {taken / micros[PATCH]:6.2f}x")


def _tasks(documents: Documents) -> dict[str, Task]:
    numbers = range(len(documents))
    literals = [json.dumps(document) for document in documents]
    maps = [f'{{..,"status":"S{number}","qty":{number}}}' for number in numbers]
    return {
        PATCH: _patched([f'{{"status":"S{number}","qty":{number}}}' for number in numbers]),
        "json.loads of a whole document": _loaded(literals),
        "literal, a whole document": _applied(literals),
        "map of 2 fields": _applied(maps),
        **_native_tasks(maps, literals),
        SAME: _applied_cached('{..,"status":"done","qty":7}'),
        "set: one added, one removed": _applied(
            [f'{{..,"tags":(..,"t{number}",~"old")}}' for number in numbers]
        ),
        "if of 2 fields": _applied(
            [f'if {{..,"status":"open","qty":gt({number})}} then {{..,"qty":0}} end' for number in numbers]
        ),
        "condition of 3 fields": _asked,
        "map of 2 fields, folded": _folded(maps),
    }


def _native_tasks(maps: Sequence[str], literals: Sequence[str]) -> dict[str, Task]:
    """Return the tasks that the native core speeds up; none if it is not installed."""
    native = native_core(None)
    if native is None:
        return {}
    return {
        "map of 2 fields, native core": _natively(native, _applied(maps)),
        "literal, native core": _natively(native, _applied(literals)),
    }


def _natively(native: ModuleType, task: Task) -> Task:
    def run_natively(documents: Documents) -> None:
        use_native(native)
        try:
            task(documents)
        finally:
            use_native(None)

    return run_natively


def _patched(texts: Sequence[str]) -> Task:
    def patch(documents: Documents) -> None:
        for document, text in zip(documents, texts, strict=True):
            {**document, **json.loads(text)}

    return patch


def _loaded(texts: Sequence[str]) -> Task:
    def load(documents: Documents) -> None:
        for text in texts:
            json.loads(text)

    return load


def _applied(texts: Sequence[str]) -> Task:
    def apply(documents: Documents) -> None:
        for document, text in zip(documents, texts, strict=True):
            Delta(read_delta(text)).apply(document)

    return apply


def _applied_cached(text: str) -> Task:
    def apply(documents: Documents) -> None:
        for document in documents:
            parse_delta(text).apply(document)

    return apply


def _asked(documents: Documents) -> None:
    for document in documents:
        CONDITION.matches(document)


def _folded(texts: Sequence[str]) -> Task:
    def fold_all(documents: Documents) -> None:
        for number, (document, text) in enumerate(zip(documents, texts, strict=True)):
            write = DocumentDelta(Delta(read_delta(text)), change_id_of_position(0, number), number)
            fold(Document("orders", "k", content=document), write)

    return fold_all
