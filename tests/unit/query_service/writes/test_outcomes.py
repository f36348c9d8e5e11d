"""What events say of commands that somebody waits for."""

from collections.abc import Collection

import pytest
from msgspec.structs import replace

from sowline.changes.change import DELETE, DELETED, Change
from sowline.changes.event import Event
from sowline.changes.progress import Progress
from sowline.commands.command import PUBLISH, Origin
from sowline.model.position import Position
from sowline.serving.writes.outcome import CommandOutcome, OutcomeReports
from sowline_query_service.replica.plain_run import EventAtOffset
from sowline_query_service.writes.outcomes import Outcomes


@pytest.fixture
def outcomes() -> Outcomes:
    """What is kept while one command of `orders` is waited for."""
    outcomes = Outcomes()
    outcomes.begin("orders")
    return outcomes


def take(outcomes: Outcomes, partition: int, *events: Event) -> None:
    """Let the outcomes see events of a partition of `orders`."""
    outcomes.take("orders", partition, [EventAtOffset(number, event) for number, event in enumerate(events)])


def of(outcomes: Outcomes, origin: Origin, everywhere: Collection[int] = ()) -> CommandOutcome | None:
    """Return the outcome of a command; None if reports are missing."""
    found = OutcomeReports(origin)
    while missing := found.missing(everywhere):
        found.add(outcomes.reports("orders", origin, missing))
        if found.missing(everywhere) == missing:
            return None
    return found.concluded(everywhere)


def publish(offset: int) -> Change:
    """A plain update."""
    return Change(b"1", b"{}", None, Position(0, offset), Position(0, offset - 1), PUBLISH, 0)


def delete(offset: int, nth: int = 0, **more: object) -> Change:
    """The removal of one record."""
    position = Position(0, offset, nth)
    made = Change(b"1", None, b"{}", position, Position(0, offset - 1), DELETE, 0, reason=DELETED)
    return replace(made, **more)


def progress(offset: int, outcomes: dict[str, str], origins: dict[int, int] | None = None) -> Progress:
    """A partition's word that it moved on."""
    position = Position(0, offset)
    return Progress(position, position, offset, origins or {}, "", "", 0, outcomes)


def test_a_change_says_that_its_command_was_applied(outcomes: Outcomes) -> None:
    """The offset names the command."""
    assert of(outcomes, Origin(1, 5)) is None
    take(outcomes, 1, publish(5))
    assert of(outcomes, Origin(1, 5)) == CommandOutcome("applied")
    assert of(outcomes, Origin(0, 5)) is None
    assert of(outcomes, Origin(1, 4)) is None


def test_a_progress_event_says_what_made_no_change(outcomes: Outcomes) -> None:
    """Repeats and refusals, each under its offset."""
    take(outcomes, 0, progress(8, {"7": "repeat", "8": "dead:bad body"}))
    assert of(outcomes, Origin(0, 7)) == CommandOutcome("repeat")
    refused = of(outcomes, Origin(0, 8))
    assert refused is not None
    assert refused.refusal == "bad body"
    assert CommandOutcome("applied").refusal is None


def test_a_delete_of_several_records_is_done_with_its_last(outcomes: Outcomes) -> None:
    """The last change carries the count."""
    take(outcomes, 0, delete(3, 0, last=False))
    assert of(outcomes, Origin(0, 3)) is None
    take(outcomes, 0, delete(3, 1, outcome="deleted 2"))
    assert of(outcomes, Origin(0, 3)) == CommandOutcome("deleted 2", 2)


def test_a_delete_for_all_waits_for_all(outcomes: Outcomes) -> None:
    """Others say where a forwarded delete came from; one that deletes nothing says so in its origins."""
    command = Origin(0, 3)
    take(outcomes, 0, progress(3, {"3": "deleted 0"}))
    assert of(outcomes, command, (1, 2)) is None
    take(
        outcomes,
        1,
        delete(9, 0, last=False, origin=command),
        delete(9, 1, origin=command, outcome="deleted 2"),
    )
    assert of(outcomes, command, (1, 2)) is None
    take(outcomes, 2, progress(4, {"4": "deleted 0"}, {0: 2}))
    assert of(outcomes, command, (1, 2)) is None
    take(outcomes, 2, progress(5, {"5": "deleted 0"}, {0: 3}))
    done = of(outcomes, command, (1, 2))
    assert done == CommandOutcome("deleted 0", 2)
    assert done is not None
    assert done.effect == {0: Position(0, 3), 1: Position(0, 9, 1), 2: Position(0, 5)}


def test_a_refused_delete_does_not_wait(outcomes: Outcomes) -> None:
    """It was not forwarded."""
    take(outcomes, 0, progress(3, {"3": "dead:bad filter"}))
    assert of(outcomes, Origin(0, 3), (1, 2)) == CommandOutcome("dead:bad filter")


def test_nothing_is_kept_without_a_waiter(outcomes: Outcomes) -> None:
    """What was said before somebody waits does not count, and does not cost."""
    second = outcomes.begin("orders")
    take(outcomes, 0, publish(5))
    outcomes.end("orders", 1)
    assert of(outcomes, Origin(0, 5)) == CommandOutcome("applied")
    third = outcomes.begin("orders")
    take(outcomes, 0, publish(6))
    outcomes.end("orders", second)
    assert of(outcomes, Origin(0, 5)) is None
    assert of(outcomes, Origin(0, 6)) == CommandOutcome("applied")
    outcomes.end("orders", third)
    take(outcomes, 0, publish(7))
    outcomes.begin("orders")
    assert of(outcomes, Origin(0, 6)) is None
    assert of(outcomes, Origin(0, 7)) is None
