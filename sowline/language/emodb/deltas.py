"""Creates the nodes of deltas in canonical form: constant parts are evaluated when a text is parsed.

A map delta without `..` whose entries are all constant becomes a literal. An `if` with a constant condition becomes
the delta that it selects. The functions raise `ValueError` with the problem of their arguments.
"""

from collections.abc import Iterable, Sequence

from sowline.language.emodb.errors import excerpt
from sowline.language.emodb.json_text import json_text
from sowline.language.emodb.printer import text_of
from sowline.language.emodb.text_order import key_order
from sowline.language.emodb.tree import (
    Condition,
    Conditional,
    Constant,
    Delete,
    Delta,
    Entries,
    LiteralDelta,
    MapDelta,
    Noop,
    SetDelta,
)
from sowline.language.emodb.values import UNDEFINED, Identity, Json, Undefined, as_set, identity

DELETE = Delete()
NOOP = Noop()


def map_delta(keeps_rest: bool, entries: Iterable[tuple[str, Delta]], deletes_empty: bool) -> Delta:
    """`{..,"key":delta}?`, its keys all different."""
    ordered = _ordered(entries)
    if not keeps_rest and all(is_constant(delta) for _, delta in ordered):
        return _worked_out(ordered, deletes_empty)
    # An object with an entry that always has a value is never empty. The `?` means nothing then, and equal deltas
    # need one text (test_a_delta_is_canonical).
    may_be_empty = deletes_empty and not any(always_defined(delta) for _, delta in ordered)
    return MapDelta(keeps_rest, ordered, may_be_empty)


def members_delta(members: dict[str, Json]) -> Delta:
    """`{..,"key":value}`: at least one value."""
    return MapDelta(True, _ordered((key, LiteralDelta(value)) for key, value in members.items()), False)


def plain_map(entries: Sequence[tuple[str, Json]]) -> Delta:
    """Return the same literal from keys and values, at least one, that are sorted already."""
    return MapDelta(True, tuple([(key, LiteralDelta(value)) for key, value in entries]), False)


def _ordered(entries: Iterable[tuple[str, Delta]]) -> Entries:
    return tuple(sorted(entries, key=lambda entry: key_order(entry[0])))


def set_delta(keeps_rest: bool, added: Sequence[Json], removed: Sequence[Json], deletes_empty: bool) -> Delta:
    """`(..,added,~removed)?`. No value may be given twice. Both 1 and 1.0 may be given; the first of them stays."""
    _check_different([*added, *removed])
    return SetDelta(keeps_rest, tuple(as_set(added)), tuple(as_set(removed)), deletes_empty)


def conditional(cases: Sequence[tuple[Condition, Delta]], otherwise: Delta) -> Delta:
    """`if test then delta elif … else otherwise end`."""
    kept: list[tuple[Condition, Delta]] = []
    for test, delta in cases:
        if isinstance(test, Constant):
            if test.holds:
                otherwise = delta
                break
        else:
            kept.append((test, delta))
    if not kept:
        return otherwise
    # `else if … end end` is the same delta as `elif … end`. Equality is that of the texts, so both become one form.
    if isinstance(otherwise, Conditional):
        kept += otherwise.cases
        otherwise = otherwise.otherwise
    defined = always_defined(otherwise) and all(always_defined(delta) for _, delta in kept)
    return Conditional(tuple(kept), otherwise, defined)


def literal_of(delta: Delta) -> Json:
    """Return the value of a set's item; raise if the item is not a value."""
    if not isinstance(delta, LiteralDelta):
        raise ValueError(f"expected only values in a set, got {excerpt(text_of(delta))}")
    return delta.value


def is_constant(delta: Delta) -> bool:
    """Whether a delta gives the same result for every previous value. A conditional counts as not constant."""
    return isinstance(delta, LiteralDelta | Delete) or (isinstance(delta, SetDelta) and not delta.keeps_rest)


def always_defined(delta: Delta) -> bool:
    """Whether a delta never results in UNDEFINED."""
    match delta:
        case LiteralDelta():
            return True
        case MapDelta() | SetDelta():
            return not delta.deletes_empty
        case Conditional():
            return delta.always_defined
        case _:
            return False


def _worked_out(entries: Sequence[tuple[str, Delta]], deletes_empty: bool) -> Delta:
    made = {key: value for key, delta in entries if (value := _constant(delta)) is not UNDEFINED}
    return DELETE if deletes_empty and not made else LiteralDelta(made)


def _constant(delta: Delta) -> Json | Undefined:
    match delta:
        case LiteralDelta(value):
            return value
        case SetDelta(_, added, _, deletes_empty):
            return UNDEFINED if deletes_empty and not added else list(added)
        case _:
            return UNDEFINED


def _check_different(values: Sequence[Json]) -> None:
    seen: set[Identity] = set()
    for value in values:
        # 0 and 0.0 are the same value here, as in EmoDB, although 1 and 1.0 are not.
        key = identity(0 if type(value) is float and identity(value) == ("0.0",) else value)
        if key in seen:
            raise ValueError(f"expected each value of a set once, got {excerpt(json_text(value))} twice")
        seen.add(key)
