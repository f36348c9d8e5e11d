"""Reads the values of a few paths from bodies, without parsing the rest of each body."""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import orjson

from sowline.model.path import Path, reader
from sowline_query_service.index.cells import ABSENT

Values = list[list[Any]]
"""For each path the values in the order of the bodies: as they stand there, or as the path's reader has them."""

_NULL = msgspec.Raw(b"null")

_PLAIN = None | bool | Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | float | str
"""The largest integer that both parsers read the same way; one of them makes a double of a larger one."""


def reader_of(paths: Sequence[Path]) -> Callable[[Sequence[bytes | None]], Values]:
    """Return a function that reads JSON bodies, each of which `orjson.loads` takes for an object.

    The values are those that `orjson.loads` would give. `None` for a body gives `ABSENT` for each value. Best
    called with some hundreds of bodies at once.
    """
    names = list(dict.fromkeys(str(path.steps[0]) for path in paths))
    containers = {str(path.steps[0]) for path in paths if len(path.steps) > 1}
    access_paths = _access_paths(names, containers)
    finishers = [(names.index(str(path.steps[0])), _finisher(path)) for path in paths]

    def read(bodies: Sequence[bytes | None]) -> Values:
        present = [body for body in bodies if body is not None]
        members = _first_to_arrive(access_paths, present)
        values = [finish(members[number]) for number, finish in finishers]
        return values if len(present) == len(bodies) else [_with_gaps(bodies, column) for column in values]

    return read


_Reader = Callable[[Sequence[bytes]], Values]
"""Maps bodies to their members by name, null for a missing one."""


def _access_paths(names: Sequence[str], containers: AbstractSet[str]) -> Sequence[_Reader]:
    """Return the quickest first; the last takes every body."""
    try:
        return [
            _decoder(names, containers),
            _decoder(names, frozenset(names)),
            partial(_parsed_whole, names),
        ]
    except ValueError:
        # A name that JSON writes with a backslash (test_any_name_is_found).
        return [partial(_parsed_whole, names)]


def _first_to_arrive(access_paths: Sequence[_Reader], bodies: Sequence[bytes]) -> Values:
    *quicker, surest = access_paths
    for read in quicker:
        # msgspec refuses a body that is nested deeper than the stack allows, and orjson takes it
        # (test_no_nesting_is_too_deep).
        with suppress(msgspec.MsgspecError, RecursionError):
            return read(bodies)
    return surest(bodies)


def _decoder(names: Sequence[str], containers: AbstractSet[str]) -> _Reader:
    """Return a reader that takes members outside `containers` for scalars, and parses the others separately.

    It fails if one of the scalars is an array or a huge integer.
    """
    fields: list[tuple[str, Any, Any]] = []
    finishers: list[Callable[[list[Any]], list[Any]]] = []
    for number, name in enumerate(names):
        get = attrgetter(f"member_{number}")
        if name in containers:
            fields.append((f"member_{number}", msgspec.Raw, _NULL))
            finishers.append(partial(_parsed_apart, get))
        else:
            fields.append((f"member_{number}", _PLAIN, None))
            finishers.append(partial(_gathered, get))
    rename = {f"member_{number}": name for number, name in enumerate(names)}
    decode = msgspec.json.Decoder(msgspec.defstruct("Members", fields, rename=rename, gc=False)).decode

    def read(bodies: Sequence[bytes]) -> Values:
        found = list(map(decode, bodies))
        return [finish(found) for finish in finishers]

    return read


def _gathered(get: Callable[[Any], Any], found: list[Any]) -> list[Any]:
    return list(map(get, found))


def _parsed_apart(get: Callable[[Any], Any], found: list[Any]) -> list[Any]:
    """One array of all values of a member: the same parser as for whole bodies, called once."""
    values: list[Any] = orjson.loads(b"[%b]" % b",".join(map(get, found)))
    return values


def _parsed_whole(names: Sequence[str], bodies: Sequence[bytes]) -> Values:
    documents = [orjson.loads(body) for body in bodies]
    return [[document.get(name) for document in documents] for name in names]


def _finisher(path: Path) -> Callable[[list[Any]], list[Any]]:
    """Map the members that a path begins with to its values."""
    if len(path.steps) == 1:
        return list
    name, read = str(path.steps[0]), reader(path)
    return lambda members: [read({name: member}) for member in members]


def _with_gaps(bodies: Sequence[bytes | None], values: list[Any]) -> list[Any]:
    present = iter(values)
    return [ABSENT if body is None else next(present) for body in bodies]
