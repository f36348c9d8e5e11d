"""Messages of partial states, and the states that the record of a group keeps."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.changes.partials import (
    NO_STATE,
    HeldState,
    HeldStates,
    Partials,
    PartialState,
    encode_held,
    read_head,
    read_held,
    read_partials,
    read_reflected,
    reflected_fields,
)
from sowline.errors import SowlineError
from sowline.model.position import Position

STATE = msgspec.Raw(b'["[1]",2,[36893488147419103232],null]')
"""It has an integer beyond 64 bits, as exact sums do."""


def test_a_message_is_compact_json() -> None:
    """States are arrays, and what is usual is left out."""
    message = Partials(
        "9d3f", 3, "7", "9.1", [PartialState("8", "[1]", STATE), PartialState("9.1", "[2]", NO_STATE)]
    )
    assert message.encode() == (
        b'{"definition":"9d3f","partition":3,"after":"7","up_to":"9.1","states":'
        b'[["8","[1]",["[1]",2,[36893488147419103232],null]],["9.1","[2]",null]]}'
    )
    part = Partials("9d3f", 3, "9", "9", is_snapshot=True, ends=False)
    assert part.encode() == (
        b'{"definition":"9d3f","partition":3,"after":"9","up_to":"9","is_snapshot":true,"ends":false}'
    )


def test_a_message_is_read_as_it_was_written() -> None:
    """A state stays the bytes that it was; one of a group without records equals `NO_STATE`."""
    message = Partials(
        "9d3f", 3, "7", "9", [PartialState("8", "ü", STATE), PartialState("9", "[2]", NO_STATE)]
    )
    read = read_partials(message.encode())
    assert [bytes(one.state) for one in read.states] == [bytes(STATE), b"null"]
    assert (read.states[0].state == NO_STATE, read.states[1].state == NO_STATE) == (False, True)
    assert read.encode() == message.encode()
    assert (read.is_snapshot, read.ends) == (False, True)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"definition":"d","partition":"0","after":"-1","up_to":"0"}',
        b'{"definition":"d","partition":0,"after":"-1","up_to":"0","states":[["0","a"]]}',
        b'{"definition":"d","partition":0,"after":"-1","up_to":"0","states":[["0","a",Infinity]]}',
        b'{"definition":"\xff","partition":0,"after":"-1","up_to":"0"}',
    ],
)
def test_anything_else_is_a_bad_message(value: bytes | None) -> None:
    """The reason is always the same."""
    with pytest.raises(SowlineError, match="expected partial states of a view") as refusal:
        read_partials(value)
    assert refusal.value.reason == "bad message"


def test_a_group_with_a_long_key_is_refused() -> None:
    """The store holds keys of up to 255 bytes."""
    states = [PartialState("5", "é" * 128, NO_STATE)]
    with pytest.raises(SowlineError, match="of at most 255 bytes"):
        read_partials(Partials("d", 0, "-1", "5", states).encode())


@given(st.dictionaries(st.integers(0, 1000), st.tuples(st.sampled_from(["-1", "7", "2/7.1"]), st.integers())))
def test_held_states_are_read_as_they_were_written(given: dict[int, tuple[str, int]]) -> None:
    """Their JSON does not depend on the order in which they came."""
    states: HeldStates = {
        number: HeldState(position, msgspec.Raw(b"[%d]" % value))
        for number, (position, value) in given.items()
    }
    text = encode_held(states)
    assert encode_held(dict(reversed(states.items()))) == text
    assert encode_held(read_held(text)) == text
    assert list(read_held(text)) == sorted(states)


def test_a_record_without_states_holds_none() -> None:
    """A new group, or one that is gone."""
    assert read_held(None) == {}


def test_what_a_view_reflects_is_text_in_json() -> None:
    """Positions with their eras, in the order of their partitions; without joins, there are no bookmarks."""
    positions = {11: Position(2, 7, 1), 0: Position(0, -1)}
    assert reflected_fields(positions, {}) == {"reflected": {"0": "-1", "11": "2/7.1"}}
    assert list(reflected_fields(positions, {})["reflected"]) == ["0", "11"]
    taken = {3: "orders:3@7;customers:0@1"}
    assert read_reflected(reflected_fields(positions, taken)) == (positions, taken)
    assert read_reflected(reflected_fields({}, {})) == ({}, {})


@pytest.mark.parametrize("value", [None, b"", b"[]", b"\xff"])
def test_a_message_that_can_not_be_read_is_none(value: bytes | None) -> None:
    """The service that reads only the heads passes it over."""
    assert read_head(value) is None
