"""What the words of the workload mean for records: its few filters, deltas and removed fields. Pure."""

import operator
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from sowline.check.history import EVERY, ORDER, TERM, DeltaParts, TotalsOf

Body = Mapping[str, Any]

Value = dict[str, Any] | list[Any] | str | int | float | None
"""What a field of a body holds."""

_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def matches(filter: str, body: Body | None) -> bool:
    """Return whether there is a record and a filter selects it; a missing field or another type matches nothing."""
    return body is not None and all(
        _holds(body.get(name), compare, value) for name, compare, value in _terms(filter)
    )


@lru_cache(maxsize=1000)
def _terms(filter: str) -> tuple[tuple[str, Callable[[Any, Any], bool], str | int], ...]:
    if filter in ("", EVERY):
        return ()
    found = [match.groups() for term in filter.split(" AND ") if (match := TERM.fullmatch(term))]
    return tuple(
        (name, _OPERATORS[sign], int(number) if number else text) for name, sign, text, number in found
    )


def _holds(value: Any, compare: Callable[[Any, Any], bool], wanted: str | int) -> bool:
    # In Python TRUE is 1, in a filter it is not (test_filters).
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    comparable = is_number if isinstance(wanted, int) else isinstance(value, str)
    return comparable and compare(value, wanted)


def page_of(order_by: str, skip_n: int, top_n: int | None, records: Mapping[str, Body]) -> list[str]:
    """Return the keys of the records at some ranks of an order, which ends with a field that no two records share."""
    keys = list(records)
    # Sorting is stable, so the most significant field comes last.
    for name, descending in reversed([match.groups() for match in ORDER.finditer(order_by)]):
        keys.sort(key=lambda key: records[key][name], reverse=bool(descending))
    return keys[skip_n:][:top_n]


def totals_of(totals: TotalsOf, records: Iterable[Body]) -> dict[str, Body]:
    """Return the result of each group of some records, by the value that they share."""
    groups: dict[str, list[Body]] = defaultdict(list)
    for body in records:
        groups[str(body[totals.grouping])].append(body)
    return {
        value: {
            totals.grouping: value,
            totals.count: len(bodies),
            totals.total: sum(body[totals.summed] for body in bodies),
        }
        for value, bodies in groups.items()
    }


def merged(body: Body | None, delta: Mapping[str, Value]) -> dict[str, Any]:
    """Return a record with the fields of a delta: objects merge field by field, other values are replaced."""
    result = dict(body or {})
    for name, value in delta.items():
        held: Value = result.get(name)
        result[name] = merged(held, value) if isinstance(held, dict) and isinstance(value, dict) else value
    return result


def delta_applied(body: Body | None, delta: DeltaParts) -> tuple[Body | None, str]:
    """Return a document after a delta, and the outcome that its writer learns."""
    held = body or {}
    wanted = delta.condition
    # No condition holds of a document that there is not, not even an empty one (test_deltas_of_documents).
    if wanted is not None and (body is None or any(held.get(name) != wanted[name] for name in wanted)):
        return body, "condition_false"
    result = {name: value for name, value in {**held, **delta.fields}.items() if name not in delta.removed}
    for name, added in delta.added.items():
        before: Value = held.get(name)
        result[name] = sorted({*(before if isinstance(before, list) else ()), *added})
    return result, "noop" if result == body else "applied"


def without(body: Body, paths: Iterable[str]) -> dict[str, Any]:
    """Return a record without the fields at paths such as `/note`; those of objects such as `/size/unit` too."""
    result: dict[str, Value] = dict(body)
    for path in paths:
        name, _, rest = path.removeprefix("/").partition("/")
        if not rest:
            result.pop(name, None)
        elif isinstance(held := result.get(name), dict):
            result[name] = without(held, [f"/{rest}"])
    return result


def key_of(body: Body | None, field: str) -> str | None:
    """Return the text of a record's key; None without one."""
    value = None if body is None else body.get(field)
    # A record that is written as 7 and received as "7" is one record (test_keys).
    return None if value is None else str(value)
