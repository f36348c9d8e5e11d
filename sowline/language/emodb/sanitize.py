"""Limits what a delta may write: a document is an object, and no writer sets its intrinsics."""

from collections.abc import Sequence

from sowline.errors import SowlineError
from sowline.language.emodb.compiled import Delta
from sowline.language.emodb.deltas import conditional, map_delta
from sowline.language.emodb.errors import BAD_DELTA
from sowline.language.emodb.intrinsics import RESERVED_KEYS
from sowline.language.emodb.tree import Condition, Conditional, LiteralDelta, MapDelta, SetDelta
from sowline.language.emodb.tree import Delta as Node


def sanitized(delta: Delta) -> Delta:
    """Return the delta in canonical form, without the intrinsics that it sets at the top level.

    Raise `SowlineError`: `not an object` if the result could be anything else, and `bad delta` if it contains half of
    a surrogate pair, which no body can.
    """
    node = _allowed(delta.tree)
    clean = delta if node is delta.tree else Delta(node, delta.source)
    if not clean.may_hold_escapes:
        return clean
    try:
        clean.text.encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(clean.text[error.start]):04x}"
        raise SowlineError(BAD_DELTA, f"expected text that UTF-8 can hold, got {half} alone") from None
    return clean


def _allowed(node: Node) -> Node:
    """Return the node without reserved keys; the node itself if it has none. Each level takes one call."""
    match node:
        case Conditional(cases, otherwise):
            allowed: list[tuple[Condition, Node]] = []
            # A loop, because a comprehension would take a second call on the stack for each level
            # (test_the_deepest_delta_is_folded).
            for test, inner in cases:
                allowed.append((test, _allowed(inner)))
            return _rebuilt(node, allowed, _allowed(otherwise))
        case LiteralDelta(dict() as members):
            kept = {key: value for key, value in members.items() if key not in RESERVED_KEYS}
            return node if len(kept) == len(members) else LiteralDelta(kept)
        case MapDelta(keeps_rest, entries, deletes_empty):
            rest = tuple(entry for entry in entries if entry[0] not in RESERVED_KEYS)
            return node if len(rest) == len(entries) else map_delta(keeps_rest, rest, deletes_empty)
        case LiteralDelta() | SetDelta():
            message = "expected a delta that makes an object of the document, got one for another value"
            raise SowlineError("not an object", message)
        case _:
            return node


def _rebuilt(node: Conditional, cases: Sequence[tuple[Condition, Node]], otherwise: Node) -> Node:
    """Return the conditional with these branches; the same one if they have not changed."""
    branches = zip((inner for _, inner in cases), (inner for _, inner in node.cases), strict=True)
    is_same = otherwise is node.otherwise and all(one is other for one, other in branches)
    return node if is_same else conditional(cases, otherwise)
