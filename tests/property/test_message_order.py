"""The order of a connection's messages: groups are whole, every stream keeps its order, nothing is lost."""

import json
from collections import defaultdict
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sowline.serving.outbox.message_order import MessageOrder

NAMES = ("a", "b", "c")
OF = st.sets(st.sampled_from(NAMES), min_size=1).map(sorted)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("data"), OF),
        st.tuples(st.just("two"), OF),
        st.tuples(st.just("ack"), OF),
        st.tuples(st.just("heartbeat"), st.just([])),
        st.tuples(st.just("group"), st.just([])),
        st.tuples(st.just("end"), st.just([])),
        st.tuples(st.just("take"), st.just([])),
    )
)


class Connection:
    """One connection's messages: `put` as they were put, `taken` as they went out."""

    def __init__(self) -> None:
        self.order = MessageOrder()
        self.put: list[dict[str, Any]] = []
        self.taken: list[dict[str, Any]] = []
        self.groups, self.is_open = 0, False

    def do(self, kind: str, of: list[str], number: int) -> None:
        """Take one step."""
        entry = {"kind": kind, "of": of, "number": number, "group": self.groups}
        message = json.dumps(entry).encode()
        if kind == "data":
            self.order.put_behind(message, of)
        elif kind == "two":
            self.order.put_all_behind([message, message], [of, of])
            self.put.append(entry)
        elif kind in ("ack", "heartbeat"):
            self.order.put(message, of)
        elif kind == "group":
            self.order.put_in_group(message)
            self.is_open = True
        elif kind == "end" and self.is_open:
            self.order.end_group()
            self.groups, self.is_open = self.groups + 1, False
        elif kind == "take" and self.order.ready:
            self.take()
        if kind in ("data", "two", "ack", "heartbeat", "group"):
            self.put.append(entry)
        assert self.order.is_open is self.is_open

    def take(self) -> None:
        """Send one message."""
        (message,) = self.order.take(1, 1)
        self.taken.append(json.loads(message))


@given(STEPS)
def test_groups_are_whole_and_streams_in_order(steps: list[tuple[str, list[str]]]) -> None:
    """Between the messages of one group are none but acknowledgements, and heartbeats.

    What is about one subscription comes in the order in which it was put, acknowledgements too.
    """
    connection = Connection()
    for number, (kind, of) in enumerate(steps):
        connection.do(kind, of, number)
    order, put, taken = connection.order, connection.put, connection.taken
    order.end_group()
    while order.ready:
        connection.take()
    assert (order.take(1, 1), order.ready_bytes, order.waiting_bytes) == ([], 0, 0)
    assert sorted(entry["number"] for entry in taken) == [entry["number"] for entry in put]
    of_group: dict[int, list[int]] = defaultdict(list)
    of_name: dict[str, list[int]] = defaultdict(list)
    for at, entry in enumerate(taken):
        if entry["kind"] == "group":
            of_group[entry["group"]].append(at)
        for name in entry["of"]:
            of_name[name].append(entry["number"])
    for positions in of_group.values():
        between = taken[positions[0] : positions[-1]]
        assert {entry["kind"] for entry in between} <= {"group", "ack", "heartbeat"}
    for numbers in of_name.values():
        assert numbers == sorted(numbers)


def test_an_acknowledgement_passes_a_group_of_which_nothing_waits() -> None:
    """One about a subscription of which something waits is sent behind that."""
    order = MessageOrder()
    order.put_in_group(b"begin")
    order.put_behind(b"change of s", ["s"])
    order.put(b"ack of s", ["s"])
    order.put(b"ack of t", ["t"])
    order.put_in_group(b"end")
    order.end_group()
    expected = [b"begin", b"ack of t", b"end", b"change of s", b"ack of s"]
    assert order.take(10, 1000) == expected
