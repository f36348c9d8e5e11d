"""Subscriptions over loopback: deltas against whole records, one topic for many subscribers, and conflation.

The records are those of `bench.orders`, of which one field changes at a time. Each subscriber has its own connection;
one other process reads all of them, frame by frame. The yardstick is a bare `websockets` server that sends the same
subscribers, in the same run, the frames that the first of them got. Nothing of Kafka is in it.
"""

import asyncio
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from bench.frames import Ask, Reader, connect, request
from bench.servers import BareService, BenchQueryService, BenchService, Load, opened
from sowline.runtime.process import spare_the_collector

CHANGES_MAX = 10_000
"""The changes of a load: no more than may wait for a client before it falls behind."""

MESSAGES_MAX = 50_000
"""That all subscribers of a case take together."""
RECORDS = 100
FEWER_BYTES_MIN = 5.0
"""How many times fewer bytes a delta of one field takes than the whole record, at least."""

RATE = 1000
CONFLATION = "conflation=100ms"


class Case(NamedTuple):
    """The requests of the subscribers, and the changes that are sent to them."""

    name: str
    subscribers: int = 1
    command: str = "subscribe"
    options: str = ""
    asked: int = 0
    """How many of the records each asks for, other ones than the subscriber before it; 0 for all."""

    records: int = RECORDS
    rate: int = 0

    @property
    def share(self) -> float:
        """How many changes make one message to a subscriber."""
        return self.records / self.asked if self.asked else 1

    def changes(self, changes_max: int) -> int:
        """How many changes are made: for half a second, or as many as there is time and memory for."""
        if self.rate:
            return self.rate // 2
        changes = min(changes_max, int(MESSAGES_MAX * self.share) // self.subscribers)
        return changes // self.records * self.records if self.asked else changes

    def asks(self, load: Load) -> list[Ask]:
        """The request of each connection."""
        return [self._ask(number, load) for number in range(self.subscribers)]

    def _ask(self, number: int, load: Load) -> Ask:
        fields = {"options": self.options}
        last = load.start + load.changes - 1
        if self.asked:
            first = number % (self.records - self.asked + 1)
            fields["filter"] = f"/order >= {first} AND /order < {first + self.asked}"
            if self.asked == 1:
                fields["filter"] = f"/order = {first}"
            last -= max(0, (last - first) % self.records - self.asked + 1)
        return Ask(request(self.command, "orders", **fields), b'"bookmark":"orders:0@%d"' % last)


class Taken(NamedTuple):
    """The messages of all subscribers of a case, the time for them, and how often a subscriber fell behind."""

    messages: int
    bytes: int
    frames: int
    seconds: float
    cpu_seconds: float
    fallen: int


class Figure(NamedTuple):
    """The runs of one case: those of the service and, unless changes are made at a rate, those of the bare server."""

    case: Case
    changes: int
    service: list[Taken]
    bare: list[Taken]


MANY = (
    *(Case("whole", subscribers) for subscribers in (1, 10, 100, 1000)),
    *(Case("of one record", subscribers, asked=1) for subscribers in (100, 1000)),
)

ONE = (MANY[0], Case("delta", command="delta_subscribe"))

AT_A_RATE = tuple(
    Case(name, command=command, options=options, records=records, rate=RATE)
    for records in (RECORDS, RECORDS // 10)
    for name, command, options in (
        ("whole", "subscribe", ""),
        ("whole", "subscribe", CONFLATION),
        ("delta", "delta_subscribe", ""),
        ("delta", "delta_subscribe", CONFLATION),
    )
)


def run(records: int, runs: int) -> None:
    """Measure all cases in turn, and print medians and ratios."""
    figures = measure((*MANY, ONE[1], *AT_A_RATE), records, runs)
    report_one([figure for figure in figures if figure.case in ONE])
    report_many([figure for figure in figures if figure.case in MANY])
    report_at_a_rate([figure for figure in figures if figure.case in AT_A_RATE])


def measure(cases: Sequence[Case], records: int, runs: int) -> list[Figure]:
    """Measure cases in turn."""
    changes_max = min(max(1, records // RECORDS) * RECORDS, CHANGES_MAX)
    figures = [Figure(case, case.changes(changes_max), [], []) for case in cases]
    spare_the_collector()
    with opened(BenchQueryService) as service, opened(BareService) as bare:
        asyncio.run(_measure(figures, runs, service, bare))
    return figures


async def _measure(figures: list[Figure], runs: int, service: BenchService, bare: BenchService) -> None:
    start = 0
    for _ in range(runs):
        for case, changes, of_service, of_bare in figures:
            load = Load(case.subscribers, start, changes, case.records, case.rate)
            start += changes
            asks = case.asks(load)
            taken, frames = await _taken(service, asks, load)
            if not case.options and taken.messages != round(changes * case.subscribers / case.share):
                raise AssertionError(f"{changes} changes made {taken.messages} messages: {case}")
            of_service.append(taken)
            if not case.rate:
                of_bare.append((await _taken(bare, [asks[0]] * len(asks), frames))[0])


async def _taken(
    connection: BenchService, asks: list[Ask], load: Load | list[bytes]
) -> tuple[Taken, list[bytes]]:
    """Let all take a load; return also the frames of the first."""
    readers = await connect(connection.port, asks, Reader)
    connection.push(load)
    ended = max(await asyncio.gather(*(reader.finished for reader in readers)))
    cost = connection.cost()
    messages, size, frames = (
        sum(counts)
        for counts in zip(*((one.messages, one.bytes, one.frame_count) for one in readers), strict=True)
    )
    for reader in readers:
        reader.close()
    return Taken(messages, size, frames, ended - cost.began, cost.cpu_seconds, cost.fallen), readers[0].frames


def report_one(figures: list[Figure]) -> None:
    """Print what a message takes as a whole record and as a delta; raises if deltas are not small enough."""
    print(f"one subscriber, {figures[0].changes:,} changes of one field, of {RECORDS} records")
    sizes = []
    for figure in figures:
        first = figure.service[0]
        sizes.append(first.bytes / first.messages)
        print(f"  {figure.case.name:8} {sizes[-1]:7,.0f} bytes a message {_rates(figure)}")
    whole, delta = sizes
    print(f"  a delta takes {whole / delta:.1f} times fewer bytes")
    if whole / delta < FEWER_BYTES_MIN:
        raise AssertionError(f"expected deltas of {FEWER_BYTES_MIN} times fewer bytes at least")


def report_many(figures: list[Figure]) -> None:
    """Print how many messages all subscribers get in a second, and what one costs."""
    print(f"subscribers with a connection each: sent every change, or those of one record in {RECORDS}")
    for figure in figures:
        print(f"  {figure.case.name:13} {figure.case.subscribers:>5,} subscribers {_rates(figure)}")


def _rates(figure: Figure) -> str:
    service, bare = (
        (_median([one.messages / one.seconds for one in taken]), _median([_micros(one) for one in taken]))
        for taken in (figure.service, figure.bare)
    )
    first = figure.service[0]
    fallen = sum(one.fallen for one in figure.service)
    return (
        f" {service[0]:>9,.0f} messages/s, bare {bare[0]:>9,.0f}, ratio {service[0] / bare[0]:5.3f};"
        f" {service[1]:6.1f} us CPU a message, bare {bare[1]:6.1f}, ratio {service[1] / bare[1]:4.1f};"
        f" {first.messages / first.frames:5.1f} messages a frame; {fallen} fell behind"
    )


def report_at_a_rate(figures: list[Figure]) -> None:
    """Print the cost of a change, and the messages made of it, with conflation and without."""
    print(f"one subscriber, {RATE:,} changes/s")
    for case, changes, taken, _ in figures:
        first = taken[0]
        cpu = _median([one.cpu_seconds / changes * 1e6 for one in taken])
        print(
            f"  {case.records:>4} records, {case.name:6} {case.options:17}"
            f" {first.messages / changes:5.2f} messages, {first.bytes / changes:6,.0f} bytes and"
            f" {cpu:6.1f} us CPU a change"
        )


def _micros(taken: Taken) -> float:
    return taken.cpu_seconds / taken.messages * 1e6


def _median(numbers: list[float]) -> float:
    return statistics.median(numbers)
