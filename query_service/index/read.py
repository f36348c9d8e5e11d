"""From bodies to the values of a few paths, without parsing the rest of each body."""

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec
import orjson

from query_service.index.cells import ABSENT
from sowline.path import Path, reader

Values = list[list[Any]]
"""For each path the values in the order of the bodies: as they stand there, or as the path's reader has them."""

_NULL = msgspec.Raw(b"null")


def reader_of(paths: Sequence[Path]) -> Callable[[Sequence[bytes | None]], Values]:
    """A function that reads JSON bodies, each of which `orjson.loads` takes for an object.

    The values are those that `orjson.loads` would give. `None` for a body gives `ABSENT` for each value. Best
    called with some hundreds of bodies at once.
    """
    names = list(dict.fromkeys(str(path.steps[0]) for path in paths))
    finishers = [(names.index(str(path.steps[0])), _finisher(path)) for path in paths]
    members_of = _members_reader(names)

    def read(bodies: Sequence[bytes | None]) -> Values:
        present = [body for body in bodies if body is not None]
        members = members_of(present)
        values = [finish(members[number]) for number, finish in finishers]
        return values if len(present) == len(bodies) else [_with_gaps(bodies, column) for column in values]

    return read


def _members_reader(names: Sequence[str]) -> Callable[[Sequence[bytes]], Values]:
    """A function that gives the bodies' members by name; null where there is none."""
    fields = [(f"member_{number}", msgspec.Raw, _NULL) for number in range(len(names))]
    rename = {f"member_{number}": name for number, name in enumerate(names)}
    raws = [attrgetter(field) for field, _, _ in fields]
    try:
        decode = msgspec.json.Decoder(msgspec.defstruct("Members", fields, rename=rename, gc=False)).decode
    except ValueError:
        # A name that JSON writes with a backslash.
        return partial(_parsed_whole, names)

    def read(bodies: Sequence[bytes]) -> Values:
        try:
            found = list(map(decode, bodies))
        except (msgspec.MsgspecError, RecursionError):
            return _parsed_whole(names, bodies)
        # One array of all values of a member: the same parser as for whole bodies, called once.
        return [orjson.loads(b"[%b]" % b",".join(map(raw, found))) for raw in raws]

    return read


def _parsed_whole(names: Sequence[str], bodies: Sequence[bytes]) -> Values:
    documents = [orjson.loads(body) for body in bodies]
    return [[document.get(name) for document in documents] for name in names]


def _finisher(path: Path) -> Callable[[list[Any]], list[Any]]:
    """From the members that a path begins with to its values."""
    if len(path.steps) == 1:
        return list
    name, read = str(path.steps[0]), reader(path)
    return lambda members: [read({name: member}) for member in members]


def _with_gaps(bodies: Sequence[bytes | None], values: list[Any]) -> list[Any]:
    present = iter(values)
    return [ABSENT if body is None else next(present) for body in bodies]
