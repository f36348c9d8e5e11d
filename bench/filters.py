"""Filters over columns, as ratios to parsing, to the closure over parsed bodies, and to DuckDB.

The records are orders of about 0.9 KB, the same every time. The filter has five predicates, three of them on
text; everything runs in one thread.
"""

import csv
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import cycle
from types import ModuleType
from typing import Any

import duckdb
import numpy as np
import orjson

from bench.orders import CONDITION, bodies_of
from sowline.language.filter import Filter, compile_filter
from sowline.model.path import Path, parse_path
from sowline.runtime.native import native_core
from sowline_query_service.index.column import Column
from sowline_query_service.index.filling import NATIVE_BODIES_MAX, filler_of
from sowline_query_service.index.hash_index import HashIndex
from sowline_query_service.index.ranks import ranks, top
from sowline_query_service.index.read import reader_of
from sowline_query_service.index.vector import evaluate, split

SQL = "status = 'open' AND qty > 300 AND price < 60 AND ticker < 'T150' AND side = 'B'"
SCHEMA = "id bigint, status varchar, ticker varchar, qty bigint, price double, side varchar"
FIELDS = ("order", "status", "ticker", "qty", "price", "side")

CHUNK = 1024
TOP = 50
LOOKUPS = 1000

Columns = dict[Path, Column]
Tasks = dict[str, Callable[[], Any]]
Seconds = dict[str, float]

PARSE = "orjson.loads of each body"
CLOSURE = "closure over each parsed body"
COLD = "cold columns: read and fill 5"
COLD_NATIVE = "cold columns, native core"
COUNT = "filter over columns: count"
ROWS = "filter over columns: row numbers"
SQL_COUNT = "DuckDB: count(*)"
SQL_IDS = "DuckDB: fetch ids"
FIRST = "first 50 by /price DESC"
PARTITION = "np.argpartition of the same doubles"


def run(records: int, runs: int) -> None:
    """Measure in turn, and print medians and ratios."""
    bodies = bodies_of(records)
    print(f"{records:,} records of {len(bodies[0])} bytes, one thread; {CONDITION}", flush=True)
    condition = compile_filter(CONDITION)
    cold = _measure(_cold(condition, bodies), runs)
    columns = _columns_of(condition, bodies)
    database = _database(bodies)
    _compare_answers(condition, columns, database, records)
    warm = _measure(_warm(condition, columns, database, records), 5 * runs)
    report(cold | warm, sum(column.nbytes for column in columns.values()))
    report_lookups(_lookups(bodies))


def _columns_of(condition: Filter, bodies: Sequence[bytes]) -> Columns:
    """Read the bodies' fields into columns, as a query does that finds none."""
    columns = _empty_columns(condition, len(bodies))
    read = reader_of(list(columns))
    for start in range(0, len(bodies), CHUNK):
        chunk = bodies[start : start + CHUNK]
        for column, values in zip(columns.values(), read(chunk), strict=True):
            column.put_rows(slice(start, start + len(chunk)), values)
    return columns


def _empty_columns(condition: Filter, rows: int) -> Columns:
    columns = {path: Column(path) for path in condition.paths}
    for column in columns.values():
        column.reserve(rows)
    return columns


def _columns_filled_natively(condition: Filter, bodies: Sequence[bytes], native: ModuleType) -> Columns:
    """Fill the same columns with the native core."""
    columns = _empty_columns(condition, len(bodies))
    fill = filler_of(list(columns), native)
    for start in range(0, len(bodies), NATIVE_BODIES_MAX):
        stop = min(start + NATIVE_BODIES_MAX, len(bodies))
        fill(list(columns.values()), slice(start, stop), bodies, start, stop)
    return columns


def _database(bodies: Sequence[bytes]) -> duckdb.DuckDBPyConnection:
    """The same columns in DuckDB, in memory."""
    database = duckdb.connect(config={"threads": 1})
    database.execute(f"create table orders({SCHEMA})")
    read = reader_of([parse_path(f"/{name}") for name in FIELDS])
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        for start in range(0, len(bodies), CHUNK):
            csv.writer(file).writerows(zip(*read(bodies[start : start + CHUNK]), strict=True))
        file.flush()
        database.execute(f"copy orders from '{file.name}'")
    return database


def _compare_answers(
    condition: Filter, columns: Columns, database: duckdb.DuckDBPyConnection, records: int
) -> None:
    found = evaluate(split(condition.tree)[0], columns, records).certain
    ids = database.execute(f"select id from orders where {SQL}").fetchnumpy()["id"]
    assert np.array_equal(np.flatnonzero(found), np.sort(ids)), "the two hold different rows to match"


def _cold(condition: Filter, bodies: Sequence[bytes]) -> Tasks:
    def parse() -> None:
        for body in bodies:
            orjson.loads(body)

    def by_closure() -> int:
        matches = condition.matches
        return sum(1 for body in bodies if matches(orjson.loads(body)))

    tasks: Tasks = {PARSE: parse, CLOSURE: by_closure, COLD: lambda: _columns_of(condition, bodies)}
    native = native_core(None)
    if native is not None:
        tasks[COLD_NATIVE] = lambda: _columns_filled_natively(condition, bodies, native)
    return tasks


def _warm(condition: Filter, columns: Columns, database: duckdb.DuckDBPyConnection, records: int) -> Tasks:
    price = columns[parse_path("/price")]
    assert price.numbers is not None
    rows, numbers = np.arange(records, dtype=np.intp), price.numbers[:records]

    def found() -> Any:
        return evaluate(split(condition.tree)[0], columns, records).certain

    def first() -> Any:
        ranked = ranks(price, records)
        assert ranked is not None
        return top(rows, [ranked.values], [True], TOP)

    return {
        COUNT: lambda: int(np.count_nonzero(found())),
        ROWS: lambda: np.flatnonzero(found()),
        SQL_COUNT: lambda: database.execute(f"select count(*) from orders where {SQL}").fetchall(),
        SQL_IDS: lambda: database.execute(f"select id from orders where {SQL}").fetchnumpy(),
        FIRST: first,
        PARTITION: lambda: np.argpartition(numbers, records - TOP),
    }


def _measure(tasks: Tasks, runs: int) -> Seconds:
    """The median of each task; they take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(runs):
        for name, task in tasks.items():
            began = time.perf_counter()
            task()
            seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(some) for name, some in seconds.items()}


def _lookups(bodies: Sequence[bytes]) -> dict[int, float]:
    """The median seconds of finding one record by two fields, in this many records."""
    index = HashIndex([parse_path("/order"), parse_path("/customer")])
    read = reader_of(index.paths)
    sizes = sorted({len(bodies) // 100, len(bodies) // 10, len(bodies)})
    found: dict[int, float] = {}
    for begin, size in zip([0, *sizes], sizes, strict=False):
        for start in range(begin, size, CHUNK):
            values = read(bodies[start : min(start + CHUNK, size)])
            for row, some in enumerate(zip(*values, strict=True), start):
                index.put(row, some)
        found[size] = _lookup_seconds(index, bodies[:size])
    return found


def _lookup_seconds(index: HashIndex, bodies: Sequence[bytes]) -> float:
    chance = random.Random(7)
    orders = [orjson.loads(chance.choice(bodies)) for _ in range(LOOKUPS)]
    conditions = [
        compile_filter(f"/order = '{order['order']}' AND /customer = '{order['customer']}'")
        for order in orders
    ]
    assert index.lookup(conditions[0].tree) == [orders[0]["order"]]
    seconds: list[float] = []
    for condition, _ in zip(cycle(conditions), range(10 * LOOKUPS), strict=False):
        began = time.perf_counter()
        index.lookup(condition.tree)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def report(seconds: Seconds, column_bytes: int) -> None:
    """Print the medians and how they compare."""
    for name, median in seconds.items():
        print(f"  {name:36} {median * 1e3:10.2f} ms")
    for name, other in (
        (COLD, PARSE),
        (COLD_NATIVE, PARSE),
        (PARSE, COUNT),
        (CLOSURE, COUNT),
        (SQL_COUNT, COUNT),
        (SQL_IDS, ROWS),
        (FIRST, PARTITION),
    ):
        if name in seconds:
            print(f"  {name} / {other}: {seconds[name] / seconds[other]:.2f}")
    print(f"  the five columns take {column_bytes / 1e6:.1f} MB")


def report_lookups(seconds: dict[int, float]) -> None:
    """Print what a look-up takes, by the number of records."""
    smallest = next(iter(seconds.values()))
    for size, median in seconds.items():
        print(
            f"  hash look-up in {size:>9,} records   {median * 1e6:6.2f} us  {median / smallest:.2f} of the smallest"
        )
