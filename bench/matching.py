"""Live matching: a change against many subscriptions, as a ratio to asking each of them.

Two loads of filters `ticker = X and low < price < high`, one in ten with a quantity too. Rare: 5,000 tickers, so
that two subscriptions share one. Hot: 20 tickers, so that 500 share one and the prices have to tell them apart.
Both sides parse the bodies and make the deliveries.
"""

import gc
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import orjson

from sowline.changes.change import Change
from sowline.language.filter import Filter, compile_filter
from sowline.model.position import Position
from sowline.subscriptions.engine.matching import LiveSubscriptions
from sowline.subscriptions.engine.subscription import ChangeView, Subscription

SUBSCRIPTIONS = 10_000

TICKERS = {"rare": 5_000, "hot": 20}
NAIVE_CHANGES_MAX = 50
"""The naive loop takes milliseconds for each change; more of them would not change the result."""


@dataclass(frozen=True)
class Figure:
    """One load, with or without messages about records out of focus: changes a second, and deliveries a change."""

    load: str
    oof: bool
    rate: float
    naive_rate: float
    deliveries: float


def run(records: int, runs: int) -> None:
    """Measure both loads, with oof and without, and print medians and ratios; then what subscribing costs."""
    changes = max(200, records // 500)
    figures = [measure(load, oof, SUBSCRIPTIONS, changes, runs) for load in TICKERS for oof in (False, True)]
    report(SUBSCRIPTIONS, figures)
    for load in TICKERS:
        report_size(load, SUBSCRIPTIONS)


def measure(load: str, oof: bool, subscriptions: int, changes: int, runs: int) -> Figure:
    """Match the changes by the index and by asking every subscription; both must find the same subscriptions."""
    asked = {
        number: Subscription(filter, oof)
        for number, filter in enumerate(make_filters(subscriptions, TICKERS[load]))
    }
    history = make_changes(changes, TICKERS[load])
    live: LiveSubscriptions[int] = LiveSubscriptions()
    for number, subscription in asked.items():
        live.add(number, subscription)

    def ask_each(change: Change) -> int:
        seen = ChangeView(change)
        answers = [(number, each.on_change(seen)) for number, each in asked.items()]
        return len([answer for answer in answers if answer[1] is not None])

    def ask_index(change: Change) -> int:
        return len(live.on_change(ChangeView(change)))

    few = history[:NAIVE_CHANGES_MAX]
    if [ask_each(change) for change in few] != [ask_index(change) for change in few]:
        raise AssertionError("the index and the naive loop do not agree")
    naive = statistics.median(_rate(ask_each, few) for _ in range(runs))
    rate = statistics.median(_rate(ask_index, history) for _ in range(runs))
    return Figure(load, oof, rate, naive, sum(map(ask_index, history)) / len(history))


@lru_cache
def make_filters(subscriptions: int, tickers: int) -> list[Filter]:
    """The filters of a load, the same every time."""
    chance = random.Random(7)
    return [compile_filter(_filter_text(chance, number, tickers)) for number in range(subscriptions)]


def _filter_text(chance: random.Random, number: int, tickers: int) -> str:
    low = chance.random() * 90
    high = low + chance.random() * 20
    text = f"/ticker = 'X{chance.randrange(tickers):05d}' AND /price > {low:.4f} AND /price < {high:.4f}"
    return f"{text} AND /qty > {chance.randint(1, 900)}" if number % 10 == 0 else text


def make_changes(changes: int, tickers: int) -> list[Change]:
    """Orders that get another price and quantity, the same every time."""
    chance = random.Random(11)
    history = []
    for number in range(changes):
        order = {"order": number, "ticker": f"X{chance.randrange(tickers):05d}", "side": chance.choice("BS")}
        previous, body = (
            orjson.dumps(order | {"price": round(chance.random() * 100, 4), "qty": chance.randint(1, 1000)})
            for _ in range(2)
        )
        position, after = Position(0, number + 1), Position(0, number)
        history.append(Change(b"%d" % number, body, previous, position, after, "publish", 0))
    return history


def _rate(match: Callable[[Change], int], changes: list[Change]) -> float:
    began = time.perf_counter()
    for change in changes:
        match(change)
    return len(changes) / (time.perf_counter() - began)


def report(subscriptions: int, figures: list[Figure]) -> None:
    """Print the rates and how they compare."""
    print(f"{subscriptions:,} subscriptions, one thread; bodies are parsed and deliveries made")
    for figure in figures:
        name = f"{figure.load}, {TICKERS[figure.load]:,} tickers, oof {'on' if figure.oof else 'off'}"
        print(
            f"  {name:30} {figure.rate:>10,.0f} changes/s  naive {figure.naive_rate:>6,.0f} changes/s"
            f"  ratio {figure.rate / figure.naive_rate:>6,.0f}  {figure.deliveries:5.1f} deliveries a change"
        )


def report_size(load: str, subscriptions: int) -> None:
    """Print what adding takes, and what the index holds besides the filters once it has matched."""
    asked = [Subscription(filter, oof=True) for filter in make_filters(subscriptions, TICKERS[load])]
    changes = make_changes(200, TICKERS[load])
    seconds = _fill(asked)[1]
    gc.collect()
    tracemalloc.start()
    live, _ = _fill(asked)
    for change in changes:
        live.on_change(ChangeView(change))
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    print(
        f"  {load}: add {subscriptions:,} in {seconds:.2f} s, {seconds / len(asked) * 1e6:.0f} us each;"
        f" {held / len(asked):,.0f} bytes each beside the filter"
    )


def _fill(asked: list[Subscription]) -> tuple[LiveSubscriptions[int], float]:
    live: LiveSubscriptions[int] = LiveSubscriptions()
    began = time.perf_counter()
    for number, subscription in enumerate(asked):
        live.add(number, subscription)
    return live, time.perf_counter() - began
