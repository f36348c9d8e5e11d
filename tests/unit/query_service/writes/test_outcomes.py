"""What events say of commands that somebody waits for."""

from collections.abc import Collection

import pytest
from msgspec.structs import replace

from sowline.changes.change import AGAIN, DELETE, DELETED, Change
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
    outcomes.begin("orders", {})
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


def test_a_repair_of_a_deleted_record_keeps_the_count(outcomes: Outcomes) -> None:
    """The owner writes the deletion again, at the position of the partition's last change, without an outcome."""
    last = Position(0, 3, 1)
    take(
        outcomes,
        0,
        delete(3, 0, last=False),
        delete(3, 1, outcome="deleted 2"),
        Change(b"9", None, None, last, last, AGAIN, 0),
    )
    assert of(outcomes, Origin(0, 3)) == CommandOutcome("deleted 2", 2)


def test_a_forwarded_delete_that_is_repeated_is_counted_once(outcomes: Outcomes) -> None:
    """A stale owner writes the same changes again, and followers drop them."""
    command = Origin(0, 3)
    changes = (
        delete(9, 0, last=False, origin=command),
        delete(9, 1, origin=command, outcome="deleted 2"),
    )
    take(outcomes, 1, *changes)
    take(outcomes, 1, *changes)
    take(outcomes, 0, progress(3, {"3": "deleted 0"}))
    assert of(outcomes, command, (1,)) == CommandOutcome("deleted 0", 2)


def test_an_owner_that_catches_up_reports_outcomes(outcomes: Outcomes) -> None:
    """The owner before it has emitted newer changes, but not what happened to the commands without a change."""
    take(outcomes, 0, publish(8))
    take(outcomes, 0, progress(7, {"7": "repeat"})._replace(is_catching_up=True))
    assert of(outcomes, Origin(0, 7)) == CommandOutcome("repeat")


def test_an_owner_of_an_ended_era_reports_no_outcome() -> None:
    """Its offsets are those of the log before, in which they named other commands."""
    outcomes = Outcomes()
    outcomes.begin("orders", {0: Position(1, 2)})
    written_again = Change(b"1", b"{}", None, Position(0, 5), Position(0, 5), AGAIN, 0, emitted_in=1)
    take(outcomes, 0, publish(4), written_again, progress(6, {"6": "repeat"}, {1: 9}))
    assert [of(outcomes, Origin(0, offset)) for offset in (4, 5, 6)] == [None] * 3
    take(outcomes, 1, progress(8, {"8": "deleted 0"}))
    assert of(outcomes, Origin(1, 8), (0,)) is None


def test_an_era_begins_without_reports(outcomes: Outcomes) -> None:
    """What a partition reported of the log before does not count as the outcome of a command to the new log."""
    take(outcomes, 0, publish(5), delete(6, origin=Origin(1, 3)), progress(7, {"7": "repeat"}, {1: 4}))
    take(outcomes, 1, progress(3, {"3": "deleted 0", "4": "deleted 0"}))
    assert of(outcomes, Origin(1, 3), (0,)) == CommandOutcome("deleted 0", 1)
    take(outcomes, 0, progress(0, {})._replace(position=Position(1, 0)))
    assert [of(outcomes, Origin(0, offset)) for offset in (5, 7)] == [None] * 2
    assert [of(outcomes, Origin(1, offset), (0,)) for offset in (3, 4)] == [None] * 2
    take(outcomes, 0, replace(publish(5), position=Position(1, 5), after=Position(0, 6)))
    assert of(outcomes, Origin(0, 5)) == CommandOutcome("applied")


def test_a_refused_delete_does_not_wait(outcomes: Outcomes) -> None:
    """It was not forwarded."""
    take(outcomes, 0, progress(3, {"3": "dead:bad filter"}))
    assert of(outcomes, Origin(0, 3), (1, 2)) == CommandOutcome("dead:bad filter")


def test_nothing_is_kept_without_a_waiter(outcomes: Outcomes) -> None:
    """What was said before somebody waits does not count, and does not cost."""
    second = outcomes.begin("orders", {})
    take(outcomes, 0, publish(5))
    outcomes.end("orders", 1)
    assert of(outcomes, Origin(0, 5)) == CommandOutcome("applied")
    third = outcomes.begin("orders", {})
    take(outcomes, 0, publish(6))
    outcomes.end("orders", second)
    assert of(outcomes, Origin(0, 5)) is None
    assert of(outcomes, Origin(0, 6)) == CommandOutcome("applied")
    outcomes.end("orders", third)
    take(outcomes, 0, publish(7))
    outcomes.begin("orders", {})
    assert of(outcomes, Origin(0, 6)) is None
    assert of(outcomes, Origin(0, 7)) is None
