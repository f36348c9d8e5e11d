"""Wrong traces of query services, gateways and clients.

Each function changes one event, and returns None if a trace has no such event.
"""

from collections.abc import Iterator
from itertools import pairwise

from tests.simulation.events import Line

Bookmark = list[tuple[int, list[int]]]

FAR = [0, 30_000, 0]
"""A position that no log reaches."""


def replaced(lines: list[Line], at: int, line: Line) -> list[Line]:
    """Return a trace with another event instead of one."""
    return [*lines[:at], line, *lines[at + 1 :]]


def moved(lines: list[Line], at: int, to: int) -> list[Line]:
    """Return a trace in which an event is earlier."""
    return [*lines[:to], lines[at], *lines[to:at], *lines[at + 1 :]]


def sent_in_turn(
    lines: list[Line], event: str, name: str, commands: tuple[str, ...] = ("publish", "oof")
) -> Iterator[tuple[int, int]]:
    """Yield the indices of two messages about a partition to one client or stream, one directly after the other.

    The first of them is one of these commands.
    """
    ends = {"subscribe", "disconnect", "restart", "end", "stop", "follow"}
    found: dict[tuple[object, ...], list[int]] = {}
    life = 0
    for at, line in enumerate(lines):
        if line["event"] in ends:
            life += 1
        elif line["event"] == event and line["message"]["command"] in ("publish", "oof"):
            found.setdefault((line[name], line["message"]["partition"], life), []).append(at)
    for of in found.values():
        yield from ((one, other) for one, other in pairwise(of) if _command(lines[one]) in commands)


def _command(line: Line) -> str:
    return str(line["message"]["command"])


def _not_received(lines: list[Line], commands: tuple[str, ...]) -> list[Line] | None:
    """Leave out that a client receives a message, and that its program reads it."""
    pair = next(sent_in_turn(lines, "receive", "by", commands), None)
    if pair is None:
        return None
    is_read = lines[pair[0]] | {"event": "read"}
    left = [*lines[: pair[0]], *lines[pair[0] + 1 :]]
    read = next((at for at, line in enumerate(left) if at >= pair[0] and line == is_read), len(left))
    return [*left[:read], *left[read + 1 :]]


def message_left_out(lines: list[Line]) -> list[Line] | None:
    """Let a client not receive a change."""
    return _not_received(lines, ("publish",))


def out_of_focus_left_out(lines: list[Line]) -> list[Line] | None:
    """Let a client not receive that a record matches no more."""
    return _not_received(lines, ("oof",))


def message_repeated(lines: list[Line]) -> list[Line] | None:
    """Let a client receive a change twice."""
    pair = next(sent_in_turn(lines, "receive", "by"), None)
    return None if pair is None else [*lines[: pair[0]], lines[pair[0]], *lines[pair[0] :]]


def message_before_its_change_is_applied(lines: list[Line]) -> list[Line] | None:
    """Let a client receive a change as soon as it is written."""
    for at, line in enumerate(lines):
        if line["event"] == "receive" and _command(line) in ("publish", "oof"):
            where = line["message"]["partition"], line["message"]["position"]
            written = next(
                at
                for at, line in enumerate(lines)
                if line["event"] == "change" and (line["partition"], line["position"]) == where
            )
            between = lines[written + 1 : at]
            if all(other["event"] not in ("subscribe", "disconnect") for other in between):
                return moved(lines, at, written + 1)
    return None


def row_of_another_state(lines: list[Line]) -> list[Line] | None:
    """Let a row of a snapshot have the body of no state of its record."""
    for at, line in enumerate(lines):
        if line["event"] == "receive" and _command(line) == "sow":
            return replaced(lines, at, line | {"message": line["message"] | {"body": "{}"}})
    return None


def group_without_a_row(lines: list[Line]) -> list[Line] | None:
    """Leave out a row of a snapshot that is received to its end."""
    row: dict[str, int] = {}
    for at, line in enumerate(lines):
        if line["event"] == "receive" and _command(line) == "sow":
            row[line["by"]] = at
        elif line["event"] == "receive" and _command(line) == "group_end" and line["by"] in row:
            return [*lines[: row[line["by"]]], *lines[row[line["by"]] + 1 :]]
        elif line["event"] in ("subscribe", "disconnect"):
            row.pop(line["by"], None)
    return None


def bookmark_ahead(lines: list[Line]) -> list[Line] | None:
    """Let a client come back with a bookmark of what it has not read."""
    for at, line in enumerate(lines):
        if line["event"] == "subscribe" and (far := _far(lines[:at], line["bookmark"] or [])):
            return replaced(lines, at, line | {"bookmark": far})
    return None


WRONG_HANDOFF = [
    message_left_out,
    out_of_focus_left_out,
    message_repeated,
    message_before_its_change_is_applied,
    row_of_another_state,
    group_without_a_row,
    bookmark_ahead,
]


def _without_one(lines: list[Line], event: str, name: str) -> list[Line] | None:
    pair = next(sent_in_turn(lines, event, name), None)
    return None if pair is None else [*lines[: pair[0]], *lines[pair[0] + 1 :]]


def passed_message_left_out(lines: list[Line]) -> list[Line] | None:
    """Let a stream not pass a change on."""
    return _without_one(lines, "pass", "stream")


def read_message_left_out(lines: list[Line]) -> list[Line] | None:
    """Let a program not read a change."""
    return _without_one(lines, "read", "by")


def message_read_twice(lines: list[Line]) -> list[Line] | None:
    """Let a program read a change twice."""
    pair = next(sent_in_turn(lines, "read", "by"), None)
    return None if pair is None else [*lines[: pair[0]], lines[pair[0]], *lines[pair[0] :]]


def snapshot_before_the_stream(lines: list[Line]) -> list[Line] | None:
    """Let a snapshot be older than what the stream has passed on already."""
    passed: set[int] = set()
    for at, line in enumerate(lines):
        if line["event"] == "pass" and _command(line) != "progress":
            passed.add(line["message"]["partition"])
        elif line["event"] in ("end", "stop"):
            passed.clear()
        elif line["event"] == "snapshot" and passed:
            old = [(of, [0, -1, 0] if of in passed else position) for of, position in line["bookmark"]]
            return replaced(lines, at, line | {"bookmark": old})
    return None


def stream_that_skips(lines: list[Line]) -> list[Line] | None:
    """Let a stream with members go on at another node behind messages that it has not passed on."""
    members: set[str] = set()
    for at, line in enumerate(lines):
        if line["event"] == "join":
            members.add(line["by"])
        elif line["event"] in ("leave", "disconnect"):
            members.discard(line["by"])
        elif line["event"] == "follow" and members and (far := _far(lines[:at], line["bookmark"])):
            return replaced(lines, at, line | {"bookmark": far})
    return None


def left_after_the_message(lines: list[Line]) -> list[Line] | None:
    """Let a client that leaves a stream count a message that it was not sent."""
    for at, line in enumerate(lines):
        if line["event"] == "leave" and (far := _far(lines[:at], line["bookmark"])):
            return replaced(lines, at, line | {"bookmark": far})
    return None


def _far(lines: list[Line], bookmark: Bookmark) -> Bookmark | None:
    """Return a bookmark after all changes; None if it would be after no more of them than before."""
    is_ahead = any(
        line["partition"] == number and line["position"] > position
        for line in lines
        if line["event"] == "change"
        for number, position in bookmark
    )
    return [(number, FAR) for number, _ in bookmark] if is_ahead else None


WRONG_STREAMS = [
    passed_message_left_out,
    read_message_left_out,
    message_read_twice,
    snapshot_before_the_stream,
    stream_that_skips,
    left_after_the_message,
]
