"""Limits how deep a JSON body may nest, so that every later reader can parse it without running out of stack."""

import re

from sowline.errors import SowlineError

NESTING_MAX = 500

_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKETS = re.compile(rb"[\[{\]}]")


def check_nesting(body: bytes, levels_max: int = NESTING_MAX) -> None:
    """Raise `too deep` if a valid JSON body nests more than `levels_max` objects and arrays.

    The depth that a parser accepts depends on its caller's stack. Whether a log record is refused must not: every
    replay has to give the same result.
    """
    # Few bodies have this many brackets in total, so this count almost always decides.
    if body.count(b"{") + body.count(b"[") <= levels_max:
        return
    # Brackets in strings are text (test_brackets_in_strings_do_not_count).
    depth = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub(b"", body)):
        depth += 1 if bracket in b"[{" else -1
        if depth > levels_max:
            raise SowlineError(
                "too deep", f"expected at most {levels_max} levels of objects and arrays, got more"
            )
