"""How deep a JSON body may nest, so that nobody who reads it later runs out of stack."""

import re

from sowline.errors import SowlineError

NESTING_MAX = 500

_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKETS = re.compile(rb"[\[{\]}]")


def check_nesting(body: bytes) -> None:
    """Raise `too deep` if a body, already known to be JSON, nests beyond `NESTING_MAX` objects and arrays.

    Parsers count their own stack, which depends on who calls them; what a log record does must not. Few
    bodies have so many brackets at all, so the count decides almost always.
    """
    if body.count(b"{") + body.count(b"[") <= NESTING_MAX:
        return
    depth = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub(b"", body)):
        depth += 1 if bracket in b"[{" else -1
        if depth > NESTING_MAX:
            raise SowlineError(
                "too deep", f"expected at most {NESTING_MAX} levels of objects and arrays, got more"
            )
