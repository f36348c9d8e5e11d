"""Interrupts a function at a step of the interpreter, as Ctrl-C may: between any two bytecode instructions."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class Interrupted(Exception):
    """What a signal raises in the main thread."""


def interrupted(function: Callable[[], object], steps: int) -> bool:
    """Call a function and interrupt it after so many steps; tell whether it took more than these."""
    left = steps

    def trace(frame: FrameType, event: str, given: object) -> Any:
        nonlocal left
        frame.f_trace_opcodes = True
        left -= event == "opcode"
        if left < 0:
            raise Interrupted
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except Interrupted:
        return True
    finally:
        sys.settrace(before)
    return False
