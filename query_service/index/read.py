"""From bodies to the values of a few paths, without parsing the rest of each body."""

from collections.abc import Callable, Sequence
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
    raws = [attrgetter(f"member_{number}") for number in range(len(names))]
    finishers = [(names.index(str(path.steps[0])), _finisher(path)) for path in paths]
    members = _members_decoder(names)

    def read(bodies: Sequence[bytes | None]) -> Values:
        found = [members(body) for body in bodies if body is not None]
        # One array of all values of a member: the same parser as for whole bodies, called once.
        parsed = [orjson.loads(b"[%b]" % b",".join(map(raw, found))) for raw in raws]
        values = [finish(parsed[number]) for number, finish in finishers]
        return values if len(found) == len(bodies) else [_with_gaps(bodies, column) for column in values]

    return read


def _members_decoder(names: Sequence[str]) -> Callable[[bytes], Any]:
    """A body's members of those names, not parsed yet."""
    fields = [(f"member_{number}", msgspec.Raw, _NULL) for number in range(len(names))]
    rename = {f"member_{number}": name for number, name in enumerate(names)}
    decode = msgspec.json.Decoder(msgspec.defstruct("Members", fields, rename=rename, gc=False)).decode

    def members(body: bytes) -> Any:
        try:
            return decode(body)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            document = orjson.loads(body)
            return _Parsed([orjson.dumps(document.get(name)) for name in names])

    return members


class _Parsed:
    """The members of a body that only `orjson` takes."""

    def __init__(self, members: Sequence[bytes]) -> None:
        for number, member in enumerate(members):
            setattr(self, f"member_{number}", member)


def _finisher(path: Path) -> Callable[[list[Any]], list[Any]]:
    """From the members that a path begins with to its values."""
    if len(path.steps) == 1:
        return list
    name, read = str(path.steps[0]), reader(path)
    return lambda members: [read({name: member}) for member in members]


def _with_gaps(bodies: Sequence[bytes | None], values: list[Any]) -> list[Any]:
    present = iter(values)
    return [ABSENT if body is None else next(present) for body in bodies]
