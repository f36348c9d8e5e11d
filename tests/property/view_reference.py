"""What views are to show, computed from all records of the sources; written from the contract, not from the core."""

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from hashlib import blake2b
from math import inf
from typing import Any, NamedTuple

from sowline.changes.change import Change

Body = dict[str, Any]


class SourceRecord(NamedTuple):
    """A record of a source partition, and its newest change."""

    body: Body
    change: Change
    partition: int

    @property
    def order(self) -> tuple[Any, ...]:
        """When it last changed."""
        return self.change.time, self.partition, self.change.position, self.change.sow_key


Records = Mapping[bytes, SourceRecord]
Recompute = Callable[[Records], dict[str, Body]]
"""Returns the records of a view, by key text."""


def key_text(*values: Any) -> str:
    """Return the key text of a group."""
    text = json.dumps(list(values), separators=(",", ":"), ensure_ascii=False)
    return text if len(text.encode()) <= 255 else f"#{blake2b(text.encode(), digest_size=16).hexdigest()}"


def grouped(records: Records, *fields: str) -> list[tuple[list[Any], list[SourceRecord]]]:
    """Return the groups: the values that they have in common, and their records."""
    groups: dict[str, tuple[list[Any], list[SourceRecord]]] = {}
    for seen in records.values():
        values = [group_value(seen.body.get(name)) for name in fields]
        groups.setdefault(json.dumps(values), (values, []))[1].append(seen)
    return list(groups.values())


def group_value(value: Any) -> Any:
    """Return the value that stands for a value in a group: an empty string is NULL, and 1.0 is 1."""
    if value == "":
        return None
    return int(value) if isinstance(value, float) and value.is_integer() else value


def number(value: Any) -> Fraction | None:
    """Return a value as a number; None for a string that spells none."""
    try:
        return Fraction(value)
    except ValueError:
        return None


def nearest(exact: Fraction) -> float | None:
    """Return the nearest double; None for what JSON can't write."""
    try:
        return float(exact)
    except OverflowError:
        return None


def total(values: list[Any]) -> Any:
    """SUM."""
    numbers = [number(value) for value in values]
    if not numbers or None in numbers:
        return None
    exact = sum((one for one in numbers if one is not None), Fraction())
    if any(isinstance(value, float | str) for value in values) or not -(2**63) <= exact < 2**64:
        return nearest(exact)
    return int(exact)


def mean(values: list[Any]) -> Any:
    """AVG."""
    numbers = [number(value) for value in values]
    if not numbers or None in numbers:
        return None
    return nearest(sum((one for one in numbers if one is not None), Fraction()) / len(numbers))


def rank(value: Any) -> tuple[Any, ...]:
    """Return where a value stands in the order of MIN and MAX."""
    kind = (
        3
        if isinstance(value, str)
        else 2
        if isinstance(value, bool)
        else 1
        if isinstance(value, float)
        else 0
    )
    as_number = number(value)
    text = value if kind == 3 else ""
    return (1, text) if as_number is None else (0, as_number, kind, text)


def distinct(values: list[Any]) -> int:
    """COUNT_DISTINCT: each spelling of a number counts, and a number that no string spells."""
    texts = {value for value in values if isinstance(value, str)}
    spelled = {number(text) for text in texts}
    return len(texts) + len({number(value) for value in values if not isinstance(value, str)} - spelled)


def totals(records: Records) -> dict[str, Body]:
    """`totals`: all aggregates of `/q` by `/g`."""
    found = {}
    for (group,), members in grouped(records, "g"):
        values = [seen.body["q"] for seen in members if seen.body.get("q") is not None]
        found[key_text(group)] = {
            "g": group,
            "n": len(members),
            "c": len(values),
            "sum": total(values),
            "mean": mean(values),
            "least": min(values, key=rank, default=None),
            "most": max(values, key=rank, default=None),
            "kinds": distinct(values),
        }
    return found


def pairs(records: Records) -> dict[str, Body]:
    """`pairs`: groups of at least two records by two fields, with what the latest one has."""
    counted = {key: seen for key, seen in records.items() if seen.body.get("f") == 1}
    found = {}
    for values, members in grouped(counted, "g", "h"):
        if len(members) > 1:
            last = max(members, key=lambda seen: seen.order).body.get("q")
            found[key_text(*values)] = {"g": values[0], "h": values[1], "n": len(members), "last": last}
    return found


def scaled(records: Records) -> dict[str, Body]:
    """`scaled`: extremes of a product that may be infinite, over all records."""
    values = [seen.body["q"] for seen in records.values() if seen.body.get("q") is not None]
    products = [product for value in values if (product := _product(value)) is not None]
    if not records:
        return {}
    shown = {"least": min(products, default=None), "most": max(products, default=None)}
    finite = {name: None if value in (inf, -inf) else value for name, value in shown.items()}
    return {key_text(None): {"all": None, **finite, "n": len(records)}}


def _product(value: Any) -> float | None:
    as_number = number(value)
    return None if as_number is None else float(as_number) * 1e308


def whole(records: Records) -> dict[str, Body]:
    """`whole`: some records as they are."""
    return {key.decode(): seen.body for key, seen in records.items() if seen.body.get("f") == 1}


def everything(records: Records) -> dict[str, Body]:
    """`conflated`: all records as they are."""
    return {key.decode(): seen.body for key, seen in records.items()}


def fields(records: Records) -> dict[str, Body]:
    """`fields`: a projection of the records that have a value in it."""
    return {
        key.decode(): {"g": seen.body.get("g") or None, "nested": {"q": seen.body["q"]}}
        for key, seen in records.items()
        if seen.body.get("q") is not None
    }


AGGREGATES = [
    "COUNT(1) AS /n",
    "COUNT(/q) AS /c",
    "SUM(/q) AS /sum",
    "AVG(/q) AS /mean",
    "MIN(/q) AS /least",
    "MAX(/q) AS /most",
    "COUNT_DISTINCT(/q) AS /kinds",
]

VIEWS: dict[str, tuple[dict[str, Any], Recompute]] = {
    "totals": ({"grouping": ["/g"], "projection": AGGREGATES}, totals),
    "pairs": (
        {
            "filter": "/f = 1",
            "grouping": ["/g", "/h"],
            "projection": ["COUNT(1) AS /n", "/q AS /last"],
            "having": "/n > 1",
        },
        pairs,
    ),
    "scaled": (
        {
            "grouping": ["/all"],
            "projection": ["MIN(/q * 1e308) AS /least", "MAX(/q * 1e308) AS /most", "COUNT(1) AS /n"],
        },
        scaled,
    ),
    "conflated": ({"interval": "500ms"}, everything),
    "whole": ({"filter": "/f = 1"}, whole),
    "fields": ({"projection": ["/g", "/q AS /nested/q"], "having": "/nested/q IS NOT NULL"}, fields),
}
"""The views: what is defined of each, and the recomputation."""
