"""Messages of partial states: which states are in which message, and which range of the source it covers."""

from typing import Any

import pytest

from sowline.changes.partials import NO_STATE
from sowline.errors import SowlineError
from sowline.model.key import partition_of
from sowline.model.position import Position, before_the_log
from sowline_views.core.outgoing import STATES_MAX, Outgoing, OutgoingPartials
from sowline_views.core.states import StateChange
from tests.property.view_world import defined

GROUPED: dict[str, Any] = {"grouping": ["/g"], "projection": ["COUNT(1) AS /n"]}
HERE, THERE = (next(str(n) for n in range(99) if partition_of(str(n), 2) == p) for p in (0, 1))
"""A key text of partition 0, and one of partition 1."""


def outgoing(partitions: int = 1, source_partitions: int = 1, **view: Any) -> OutgoingPartials:
    """Return the messages of source partition 0, from its begin on."""
    topic = defined({**GROUPED, **view}, source_partitions, partitions)
    return OutgoingPartials(topic, 0, source_partitions, before_the_log())


def take(of: OutgoingPartials, offset: int, *states: tuple[str, str | None]) -> list[Outgoing]:
    """Take what the change at an offset does; return the messages that it ends."""
    changes = [StateChange(key, None if state is None else state.encode()) for key, state in states]
    return list(of.take(Position(0, offset), changes))


def shown(messages: list[Outgoing]) -> list[tuple[int, str, str, dict[str, str]]]:
    """Return of each message its partition, its range, and the state of each group."""
    return [
        (
            partition,
            message.after,
            message.up_to,
            {one.key: bytes(one.state).decode() for one in message.states},
        )
        for partition, message in messages
    ]


def test_a_message_covers_the_changes_that_were_taken() -> None:
    """It has the state of each group, with the position of the change that made it."""
    of = outgoing()
    assert take(of, 0, ("a", "[1]")) == take(of, 3, ("b", "[2]")) == []
    (message,) = of.flush(also_idle=False)
    assert shown([message]) == [(0, "-1", "3", {"a": "[1]", "b": "[2]"})]
    assert [one.position for one in message.message.states] == ["0", "3"]
    assert list(of.flush(also_idle=True)) == []


def test_a_change_of_many_ends_no_message_without_states() -> None:
    """There is nothing to send before it."""
    changes = [(str(number), "[1]") for number in range(STATES_MAX + 1)]
    assert [len(message.states) for _, message in take(outgoing(), 0, *changes)] == [STATES_MAX, 1]


def test_a_group_that_changes_again_ends_the_message_before() -> None:
    """So every state of a group is sent."""
    of = outgoing()
    take(of, 0, ("a", "[1]"))
    take(of, 1, ("b", "[2]"))
    assert shown(take(of, 2, ("a", "[3]"))) == [(0, "-1", "1", {"a": "[1]", "b": "[2]"})]


def test_a_state_is_in_the_message_behind_the_one_it_ends() -> None:
    """The next message has it: none is lost between two messages."""
    of = outgoing()
    take(of, 0, ("a", "[1]"))
    take(of, 1, ("a", "[2]"))
    assert shown(list(of.flush(also_idle=False))) == [(0, "0", "1", {"a": "[2]"})]


def test_the_states_of_one_change_are_in_one_message() -> None:
    """A record moves from one group to another: readers see both, or nothing of it."""
    of = outgoing()
    take(of, 0, ("a", "[1]"))
    assert shown(take(of, 1, ("a", None), ("b", "[1]"))) == [(0, "-1", "0", {"a": "[1]"})]
    assert shown(list(of.flush(also_idle=False))) == [(0, "0", "1", {"a": "null", "b": "[1]"})]


def test_a_group_without_records_has_no_state() -> None:
    """What is sent for it is null."""
    of = outgoing()
    take(of, 0, ("a", None))
    ((_, message),) = of.flush(also_idle=False)
    assert message.states[0].state == NO_STATE


def test_each_partition_of_the_view_has_its_own_messages() -> None:
    """Positions are reported to partitions without states on request only."""
    of = outgoing(partitions=2)
    take(of, 0, (HERE, "[1]"))
    take(of, 1)
    assert shown(list(of.flush(also_idle=False))) == [(0, "-1", "1", {HERE: "[1]"})]
    take(of, 2, (THERE, "[1]"))
    assert shown(list(of.flush(also_idle=True))) == [(0, "1", "2", {}), (1, "-1", "2", {THERE: "[1]"})]


def test_a_full_message_ends() -> None:
    """A message has a limited number of states, and a limited size."""
    of = outgoing()
    assert [take(of, n, (str(n), "[1]")) for n in range(STATES_MAX)] == [[]] * STATES_MAX
    assert len(take(of, STATES_MAX, ("one more", "[1]"))) == 1
    of, state = outgoing(), f'["{"x" * 600_000}"]'
    take(of, 0, ("a", state))
    assert len(take(of, 1, ("b", state))) == 1


@pytest.mark.parametrize("record_bytes_max", [64, 1000, 100_000])
def test_a_message_fits_the_log(record_bytes_max: int) -> None:
    """Long keys and positions count, too, in messages of few bytes of states."""
    topic = defined({**GROUPED, "record_bytes_max": record_bytes_max}, 1, 1)
    of = OutgoingPartials(topic, 0, 1, Position(2_000_000_000, 10**18))
    texts = [f"{n:04}" + '"' * 251 for n in range(2 * STATES_MAX)]
    state = f"[{'1' * 60}]".encode()
    position = Position(2_000_000_000, 2 * 10**18, 2_000_000_000)
    messages = [one for text in texts for one in of.take(position, [StateChange(text, state)])]
    messages += [*of.flush(also_idle=False), *of.write_snapshot(StateChange(text, state) for text in texts)]
    assert sum(len(message.states) for _, message in messages) == 4 * STATES_MAX
    assert max(len(message.encode()) for _, message in messages) <= topic.kafka.log_bytes_max


def test_a_snapshot_has_all_states_as_of_the_position() -> None:
    """Its last message ends it. A partition without states has one, too: readers must know that it has none."""
    of = outgoing(partitions=2)
    take(of, 7, (HERE, "[1]"))
    messages = list(of.write_snapshot([StateChange(HERE, b"[2]")]))
    assert shown(messages) == [(0, "7", "7", {HERE: "[2]"}), (1, "7", "7", {})]
    assert all(message.is_snapshot and message.ends for _, message in messages)
    assert list(of.flush(also_idle=True)) == []


def test_a_large_snapshot_has_several_messages() -> None:
    """Only the last one ends it."""
    states = [StateChange(str(n), b"[1]") for n in range(2 * STATES_MAX + 1)]
    messages = [message for _, message in outgoing().write_snapshot(states)]
    assert [len(message.states) for message in messages] == [STATES_MAX, STATES_MAX, 1]
    assert [message.ends for message in messages] == [False, False, True]
    state = f'["{"x" * 600_000}"]'.encode()
    large = [
        message
        for _, message in outgoing().write_snapshot([StateChange("a", state), StateChange("b", state)])
    ]
    assert [len(message.states) for message in large] == [1, 1]


def test_a_state_that_is_too_large_is_refused() -> None:
    """A record has a state of each source partition, and must fit. Nothing was taken then."""
    of = outgoing(source_partitions=4, record_bytes_max=400)
    take(of, 0, ("a", "[1]"))
    with pytest.raises(SowlineError, match=r"at most 100 bytes for group b of view view, got 101") as refusal:
        take(of, 1, ("a", "[2]"), ("b", f"[{'1' * 99}]"))
    assert refusal.value.reason == "too large"
    assert shown(list(of.flush(also_idle=True))) == [(0, "-1", "0", {"a": "[1]"})]


def test_a_state_that_grows_is_warned_of_long_before_its_limit() -> None:
    """Once at a sixteenth of the limit, then each time that one is twice as large."""
    of, warned = outgoing(record_bytes_max=1600), []
    for size in range(2, 1600):
        take(of, size, ("a", f"[{'1' * (size - 2)}]"))
        if (large := of.take_large_state()) is not None:
            warned.append(large)
    assert [one.bytes for one in warned] == [101, 203, 407, 815]
    assert {(one.key, one.bytes_max) for one in warned} == {("a", 1600)}
    assert of.take_large_state() is None


def test_a_single_record_has_one_state() -> None:
    """In a view without groups, a record may be as large as the view allows, whatever the partitions."""
    of = OutgoingPartials(defined({"record_bytes_max": 400}, 4, 1), 0, 4, before_the_log())
    assert take(of, 0, ("1", f"{{{' ' * 398}}}")) == []
    with pytest.raises(SowlineError, match="at most 400 bytes"):
        take(of, 1, ("2", f"{{{' ' * 399}}}"))
