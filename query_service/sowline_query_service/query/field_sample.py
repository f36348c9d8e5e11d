"""The fields of a topic's records, from a sample: their paths, kinds, and frequent values."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson

from sowline.config.topic_definition import TopicDefinition
from sowline.language.filter import ALL
from sowline.language.filter.functions import FUNCTIONS
from sowline.model.body import write_body
from sowline.model.path import Document, Path
from sowline.model.select import Select
from sowline.serving.authorization.entitlements import Entitlement
from sowline_query_service.index.rows import Rows

SAMPLE_RECORDS = 1000
"""Records of a sample; reading them takes some milliseconds."""

FIELDS_MAX = 500
VALUES_MAX = 20
VALUE_CHARS_MAX = 80
"""Longer strings are not listed as frequent values."""

_KINDS = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


@dataclass(slots=True)
class _Field:
    records: int = 0
    kinds: set[str] = field(default_factory=set)
    values: Counter[Any] = field(default_factory=Counter)


def sampled_paths(rows: Rows, most: int, select: Select | None) -> set[str]:
    """Return the paths of the selected fields of up to `most` records, evenly spread over the topic's rows."""
    return {path for body in _sample(rows, most) for path, _ in _leaves(_selected(body, select))}


def described_fields(definition: TopicDefinition, rows: Rows, entitlement: Entitlement) -> dict[str, Any]:
    """Return the fields of a sample of a topic's records that the user may see.

    Each field has its path, its kinds, the number of sampled records that have it, and its most frequent values if
    the sample has a value twice. The values and the paths are those of the sample: other records may have more.
    `functions` are the names of the functions of filters, which complete a filter together with the fields.
    `value_names` are those of a FIX data dictionary.
    """
    fields: dict[str, _Field] = {}
    records = 0
    select = entitlement.select
    for sampled in _sample(rows, SAMPLE_RECORDS):
        if entitlement.filter != ALL and not entitlement.filter.matches(sampled):
            continue
        records += 1
        for path, value in _leaves(_selected(sampled, select)):
            if path not in fields and len(fields) >= FIELDS_MAX:
                continue
            _note(fields.setdefault(path, _Field()), value)
    return {
        "topic": definition.name,
        "sampled": records,
        "records": len(rows) if entitlement.is_whole else None,
        "fields": [
            {
                "path": path,
                "kinds": sorted(found.kinds),
                "records": found.records,
                "values": _frequent(found.values),
            }
            for path, found in fields.items()
        ],
        "functions": sorted(FUNCTIONS),
        # The names of fields that the user may not read stay hidden.
        "value_names": definition.value_names if select is None else {},
    }


def _note(found: _Field, value: Any) -> None:
    found.records += 1
    if value is None:
        found.kinds.add("null")
        return
    found.kinds.add(_KINDS[type(value)])
    if isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= VALUE_CHARS_MAX):
        # True and 1 are equal in Python, but not in a filter.
        found.values[type(value), value] += 1


def _frequent(values: Counter[Any]) -> list[dict[str, Any]]:
    if not values or values.most_common(1)[0][1] < 2:
        return []
    return [{"value": value, "records": count} for (_, value), count in values.most_common(VALUES_MAX)]


def _sample(rows: Rows, most: int) -> Iterator[Document]:
    every, bodies = rows.all(), rows.bodies
    chosen = every if len(every) <= most else every[np.linspace(0, len(every) - 1, most).astype(np.int64)]
    return (orjson.loads(body) for row in chosen.tolist() if (body := bodies[row]) is not None)


def _selected(body: Document, select: Select | None) -> Document:
    selected: Document = body if select is None else orjson.loads(select.apply(write_body(body)))
    return selected


def _leaves(value: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield the paths of a document's fields with their values; for an object, those of its fields, unless empty."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, (*names, name))
    elif names:
        yield str(Path(names)), value
