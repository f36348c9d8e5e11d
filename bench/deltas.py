"""Deltas between two bodies of a record, as ratios to parsing both with orjson.

The records are of about 1 KB: orders of eight fields, of which one is long, and flat records of 45 short ones.
One field changes; everything runs in one thread.
"""

import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import orjson

from bench.orders import bodies_of
from sowline.model.difference import difference, union
from sowline.model.select import parse_select

BODIES_MAX = 2_000
"""More pairs of bodies would not change the result."""

KEYS = (("order",),)
SELECT = parse_select("[-/,+/order,+/qty]")

Pair = tuple[bytes, bytes]

PARSE = "orjson.loads of both"


def run(records: int, runs: int) -> None:
    """Measure both loads in turn, and print medians and ratios."""
    orders = bodies_of(min(records, BODIES_MAX))
    for load, bodies in (("orders", orders), ("flat", [_flat(body) for body in orders])):
        pairs = [(body, _changed(body)) for body in bodies]
        print(f"{load}: {len(pairs):,} pairs of bodies of {len(bodies[0])} bytes, one thread", flush=True)
        report(measure(pairs, runs))


def measure(pairs: list[Pair], runs: int) -> dict[str, float]:
    """The median microseconds of each task, for one pair of bodies; the tasks take turns."""
    micros: dict[str, list[float]] = {name: [] for name in _TASKS}
    for _ in range(runs):
        for name, task in _TASKS.items():
            began = time.perf_counter()
            for before, now in pairs:
                task(before, now)
            micros[name].append((time.perf_counter() - began) / len(pairs) * 1e6)
    return {name: statistics.median(taken) for name, taken in micros.items()}


def report(micros: dict[str, float]) -> None:
    """Print one line for each task."""
    for name, taken in micros.items():
        print(f"  {name:32} {taken:8.2f} µs {taken / micros[PARSE]:6.2f}x")


def _parse_both(before: bytes, now: bytes) -> None:
    orjson.loads(before)
    orjson.loads(now)


def _there_and_back(before: bytes, now: bytes) -> None:
    union(difference(before, now, KEYS), difference(now, before, KEYS), before)


_TASKS: dict[str, Callable[[bytes, bytes], Any]] = {
    PARSE: _parse_both,
    "one field changed": lambda before, now: difference(before, now, KEYS),
    "nothing changed": lambda before, now: difference(before, before, KEYS),
    "one field changed, two selected": lambda before, now: difference(before, now, KEYS, SELECT),
    "two differences and their union": _there_and_back,
}


def _changed(body: bytes) -> bytes:
    order = orjson.loads(body)
    return orjson.dumps(order | {"qty": order["qty"] + 1})


def _flat(body: bytes) -> bytes:
    order = orjson.loads(body)
    chance = random.Random(order["order"])
    short = (lambda: "x" * 20, lambda: chance.randrange(100_000), chance.random)
    fields = {f"field_{number:02d}": short[number % 3]() for number in range(37)}
    return orjson.dumps(order | {"notes": None} | fields)
