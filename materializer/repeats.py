"""Repeats: whether a command was seen before by the record it is for."""

from sowline.change import Numbers
from sowline.command import Command

PUBLISHERS_MAX = 8


def is_repeat(numbers: Numbers | None, command: Command, since: int) -> bool:
    """Tell whether the command's number is not above the highest of its publisher since that log time (ms)."""
    if command.publisher is None or not numbers:
        return False
    seen = numbers.get(command.publisher)
    return seen is not None and seen[2] >= since and command.sequence <= seen[:2]


def remember(numbers: Numbers | None, command: Command, time: int, since: int) -> tuple[Numbers | None, int]:
    """Return the numbers with the command's own, if it has one, and how many publishers that pushed out.

    Numbers from before `since` are dropped, whoever writes: what a change says must not depend on when a
    deleted record's memory was cleared away. Of more than `PUBLISHERS_MAX` publishers the oldest goes.
    """
    kept = {name: seen for name, seen in (numbers or {}).items() if seen[2] >= since}
    if command.publisher is not None:
        kept[command.publisher] = (*command.sequence, time)
    pushed_out = max(0, len(kept) - PUBLISHERS_MAX)
    for name in sorted(kept, key=lambda name: (name == command.publisher, kept[name][2], name))[:pushed_out]:
        del kept[name]
    return kept or None, pushed_out
