"""Mistakes that a system could make, planted into the history of a perfect one; each breaks a guarantee by name."""

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from sowline.check.history import Event, MessageRead, ReadEnded, ReadOpened, WriteAnswered, WriteSent
from sowline.check.judge.judging import judge
from sowline.check.judge.verdict import Guarantee
from tests.checked_world import TOPIC, VIEW, CheckedWorld

Choose = Callable[[Event, ReadOpened | None], bool]


class PlantedMistake(NamedTuple):
    """A mistake, and what it breaks."""

    name: str
    breaks: Guarantee
    chosen: Choose
    """Whether an event can be changed so; also gets the read of a message."""
    change: Callable[[Any], Sequence[Event]]
    """What becomes of the event."""
    distance: int = 0
    """How many messages of the read later a copy arrives instead."""


def changed(**fields: Any) -> Callable[[Any], Sequence[Event]]:
    """Return a change of some fields."""
    return lambda event: [structs.replace(event, **fields)]


def with_data(**fields: Any) -> Callable[[Any], Sequence[Event]]:
    """Return a change of some fields of the record."""
    return lambda event: [structs.replace(event, data={**(event.data or {}), **fields})]


def dropped(event: Event) -> Sequence[Event]:
    """Lose an event."""
    return []


def twice(event: Event) -> Sequence[Event]:
    """Repeat an event."""
    return [event, event]


def just_before(bookmark: str) -> str:
    """Return the bookmark of a position just before that of a message, at which nothing stands."""
    partition, _, position = bookmark.partition("@")
    return f"{partition}@{int(position.partition('.')[0]) - 1}.99"


def is_live(event: Event, opened: ReadOpened | None, *, resumed: bool = False) -> bool:
    """Whether it is a message about a single change."""
    return (
        isinstance(event, MessageRead)
        and opened is not None
        and event.command in ("publish", "oof")
        and opened.topic == TOPIC
        and not opened.conflated
        and not opened.is_computed
        and opened.resumed is resumed
        and not opened.fanout
    )


def live(command: str = "", *, delta: bool | None = None, reason: str = "", resumed: bool = False) -> Choose:
    """Choose messages about single changes; not those of the first subscription, which receives everything."""

    def chosen(event: Event, opened: ReadOpened | None) -> bool:
        return (
            is_live(event, opened, resumed=resumed)
            and isinstance(event, MessageRead)
            and event.read != "r1"
            and command in ("", event.command)
            and reason in ("", event.reason)
            and delta in (None, event.delta)
        )

    return chosen


def of_fanout(command: str = "") -> Choose:
    """Choose the messages of fanouts."""
    return lambda event, opened: (
        isinstance(event, MessageRead)
        and opened is not None
        and bool(opened.fanout)
        and command in ("", event.command)
    )


def of(command: str, topic: str = TOPIC, promise: str | None = None, *, conflated: bool = False) -> Choose:
    """Choose the messages of queries, or those that are about many records."""

    def chosen(event: Event, opened: ReadOpened | None) -> bool:
        return (
            isinstance(event, MessageRead)
            and opened is not None
            and event.command == command
            and opened.topic == topic
            and promise in (None, opened.promise)
            and opened.conflated is conflated
            and not opened.order_by
            and opened.groups is None
        )

    return chosen


def of_page(command: str) -> Choose:
    """Choose messages of ordered queries."""
    return lambda event, opened: (
        isinstance(event, MessageRead)
        and opened is not None
        and event.command == command
        and bool(opened.order_by)
        and not opened.is_computed
    )


def of_result(*commands: str, groups: bool, more: bool | None = None) -> Choose:
    """Choose messages of groups or of live pages."""
    return lambda event, opened: (
        isinstance(event, MessageRead)
        and opened is not None
        and event.command in commands
        and opened.is_computed
        and (opened.groups is not None) is groups
        and more in (None, event.more)
    )


def write(command: str) -> Choose:
    """Choose writes."""
    return lambda event, _: isinstance(event, WriteSent) and event.command == command


def outcome(name: str) -> Choose:
    """Choose answers to deltas."""
    return lambda event, _: isinstance(event, WriteAnswered) and event.outcome == name


def answer(*, deleted: bool) -> Choose:
    """Choose answers to writes."""
    return lambda event, _: (
        isinstance(event, WriteAnswered)
        and deleted is bool(event.deleted)
        and bool(event.effect if deleted else event.position)
    )


PLANTED = (
    PlantedMistake("a record is missing", Guarantee.SNAPSHOT, of("sow", promise="read_your_writes"), dropped),
    PlantedMistake(
        "a record is stale", Guarantee.SNAPSHOT, of("sow", promise="monotonic_reads"), with_data(n=-1)
    ),
    PlantedMistake("a record comes twice", Guarantee.SNAPSHOT, of("sow"), twice),
    PlantedMistake(
        "a result without its end", Guarantee.SNAPSHOT, of("group_end", promise="read_your_writes"), dropped
    ),
    PlantedMistake("a record of a page is missing", Guarantee.PAGES, of_page("sow"), dropped),
    PlantedMistake("a record of another rank", Guarantee.PAGES, of_page("sow"), with_data(qty=-1)),
    PlantedMistake(
        "a lost message of a page's step",
        Guarantee.PAGES,
        of_result("publish", "oof", groups=False, more=True),
        dropped,
    ),
    PlantedMistake(
        "a wrong record of a page's step",
        Guarantee.PAGES,
        of_result("publish", groups=False),
        with_data(qty=-1),
    ),
    PlantedMistake(
        "a checksum of another page",
        Guarantee.CHECKSUM,
        of_result("progress", groups=False),
        changed(records=99),
    ),
    PlantedMistake("a lost group of a result", Guarantee.GROUPS, of_result("sow", groups=True), dropped),
    PlantedMistake(
        "a wrong sum of a group",
        Guarantee.GROUPS,
        of_result("sow", "publish", groups=True),
        with_data(qty=-1),
    ),
    PlantedMistake(
        "a lost message of a step of groups",
        Guarantee.GROUPS,
        of_result("publish", "oof", groups=True, more=True),
        dropped,
    ),
    PlantedMistake("a wrong count", Guarantee.SNAPSHOT, of("group_end"), changed(records=99)),
    PlantedMistake("a lost publish", Guarantee.NO_GAP, live("publish"), dropped),
    PlantedMistake("a lost oof", Guarantee.NO_GAP, live("oof"), dropped),
    PlantedMistake("a repeated publish", Guarantee.NO_REPEAT, live("publish"), twice),
    PlantedMistake("a repeated oof", Guarantee.NO_REPEAT, live("oof"), twice),
    PlantedMistake("a message arrives late", Guarantee.ORDER, live(), dropped, distance=6),
    PlantedMistake(
        "a message of a resumed one late", Guarantee.ORDER, live(resumed=True), dropped, distance=6
    ),
    PlantedMistake(
        "an oof as a publish", Guarantee.FOCUS, live("oof"), changed(command="publish", reason="")
    ),
    PlantedMistake("an oof with another body", Guarantee.FOCUS, live("oof"), with_data(qty=-5)),
    PlantedMistake(
        "an oof with another reason", Guarantee.FOCUS, live("oof", reason="match"), changed(reason="deleted")
    ),
    PlantedMistake(
        "a publish with another body", Guarantee.FOCUS, live("publish", delta=False), with_data(n=-1)
    ),
    PlantedMistake(
        "a publish of another record", Guarantee.FOCUS, live("publish", delta=False), changed(sow_key="7")
    ),
    PlantedMistake("a wrong delta", Guarantee.DELTAS, live("publish", delta=True), with_data(n=-1)),
    PlantedMistake(
        "a cut delta",
        Guarantee.DELTAS,
        lambda event, opened: (
            live("publish", delta=True)(event, opened)
            and isinstance(event, MessageRead)
            and len(event.data or {}) > 1
        ),
        lambda event: [structs.replace(event, data={"id": event.data["id"]})],
    ),
    PlantedMistake("a change is lost after a bookmark", Guarantee.RESUME, live(resumed=True), dropped),
    PlantedMistake("a change is repeated after a bookmark", Guarantee.RESUME, live(resumed=True), twice),
    PlantedMistake(
        "an answer without the own write",
        Guarantee.READ_YOUR_WRITES,
        of("group_end", promise="read_your_writes"),
        changed(bookmark=f"{TOPIC}:0@0,1@0"),
    ),
    PlantedMistake(
        "an effect before its write",
        Guarantee.READ_YOUR_WRITES,
        answer(deleted=False),
        changed(effect=f"{TOPIC}:0@0,1@0"),
    ),
    PlantedMistake(
        "an earlier answer",
        Guarantee.MONOTONIC_READS,
        of("group_end", promise="monotonic_reads"),
        changed(bookmark=f"{TOPIC}:1@0"),
    ),
    PlantedMistake(
        "an answer without a partition",
        Guarantee.MONOTONIC_READS,
        of("group_end", promise="monotonic_reads"),
        changed(bookmark=f"{TOPIC}:0@999999"),
    ),
    PlantedMistake("a lost conflated message", Guarantee.CONFLATION, of("publish", conflated=True), dropped),
    PlantedMistake(
        "a stale conflated message", Guarantee.CONFLATION, of("publish", conflated=True), with_data(n=-1)
    ),
    PlantedMistake("a checksum of one record more", Guarantee.CHECKSUM, of("progress"), changed(records=99)),
    PlantedMistake(
        "a checksum of other records", Guarantee.CHECKSUM, of("progress"), changed(hash="00000000000000ff")
    ),
    PlantedMistake("a wrong sum", Guarantee.VIEWS, of("sow", VIEW, ""), with_data(qty=-1)),
    PlantedMistake("a lost group", Guarantee.VIEWS, of("sow", VIEW), dropped),
    PlantedMistake("a lost message of a fanout", Guarantee.FANOUTS, of_fanout(), dropped),
    PlantedMistake("a late message of a fanout", Guarantee.FANOUTS, of_fanout(), dropped, distance=6),
    PlantedMistake("another body of a fanout", Guarantee.FANOUTS, of_fanout("publish"), with_data(n=-1)),
    PlantedMistake(
        "an oof of a fanout as a publish",
        Guarantee.FANOUTS,
        of_fanout("oof"),
        changed(command="publish", reason=""),
    ),
    PlantedMistake(
        "a message of a fanout again, as a new one",
        Guarantee.FANOUTS,
        of_fanout(),
        lambda event: [structs.replace(event, bookmark=just_before(event.bookmark)), event],
    ),
    PlantedMistake(
        "a message of a fanout again, with another body",
        Guarantee.FANOUTS,
        of_fanout("publish"),
        lambda event: [event, structs.replace(event, data={**event.data, "n": -1})],
    ),
    PlantedMistake(
        "a delete that removes too many",
        Guarantee.DELETES,
        answer(deleted=True),
        lambda event: [structs.replace(event, deleted=event.deleted - 1)],
    ),
    PlantedMistake(
        "a delete that removes too few",
        Guarantee.DELETES,
        answer(deleted=True),
        lambda event: [structs.replace(event, deleted=event.deleted + 1)],
    ),
    PlantedMistake(
        "an outcome of no effect", Guarantee.DOCUMENTS, outcome("applied"), changed(outcome="noop")
    ),
    PlantedMistake(
        "an outcome in spite of its condition",
        Guarantee.DOCUMENTS,
        outcome("condition_false"),
        changed(outcome="applied"),
    ),
    PlantedMistake(
        "an effect of another write", Guarantee.ONE_EFFECT, live("publish"), changed(correlation_id="x1")
    ),
    PlantedMistake(
        "a change without a write",
        Guarantee.ONE_EFFECT,
        live("publish"),
        changed(bookmark=f"{TOPIC}:0@999999"),
    ),
)
"""Each at least twice for each guarantee, but for expiries and answers, which only the whole system can get wrong."""


def broken_by(mistake: PlantedMistake, seed: int) -> set[Guarantee]:
    """Return what the judge finds broken in a perfect history with the mistake; the seed makes both."""
    events = plant(mistake, CheckedWorld(seed).live(), random.Random(seed))
    assert events is not None
    return {*judge(events).broken}


def plant(mistake: PlantedMistake, events: Sequence[Event], dice: random.Random) -> list[Event] | None:
    """Return the history with the mistake at a random event; None if there is no event for it."""
    reads = {event.read: event for event in events if isinstance(event, ReadOpened)}
    numbers = [
        number
        for number, event in enumerate(events)
        if mistake.chosen(event, reads.get(event.read) if isinstance(event, MessageRead) else None)
    ]
    dice.shuffle(numbers)
    for number in numbers:
        found = [*events[:number], *mistake.change(events[number]), *events[number + 1 :]]
        if not mistake.distance:
            return found
        if (later := _later(events, number)) is not None:
            found.insert(later, events[number])
            return found
    return None


def _later(events: Sequence[Event], number: int) -> int | None:
    """Return where a message is to arrive late: after the next message of its read about the same partition."""
    late = events[number]
    assert isinstance(late, MessageRead)
    for index in range(number + 1, len(events)):
        event = events[index]
        if isinstance(event, ReadEnded) and event.read == late.read:
            return None
        if isinstance(event, MessageRead) and event.read == late.read and event.command in ("publish", "oof"):
            partition = event.bookmark.partition("@")[0]
            if partition == late.bookmark.partition("@")[0]:
                return index
    return None
