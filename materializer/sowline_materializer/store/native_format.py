"""Reads messages of other types than JSON for the native core. The codec of a message type is the specification."""

from functools import partial
from typing import Any, Final

from sowline.codecs.fix.options import BODY_LENGTH, CHECK_SUM, FixOptions
from sowline.codecs.fix.session import FixSession
from sowline.codecs.schema import AVRO, FIX, MSGPACK, NVFIX, PROTOBUF, Schema
from sowline.codecs.typed_bodies import ReadBody, TypedBodies
from sowline.errors import SowlineError

FORMATS: Final = frozenset({FIX, NVFIX, MSGPACK, AVRO, PROTOBUF})
"""The message types whose messages the native core applies: it reads the first three itself."""


def native_format(module: Any, reader: Schema, bodies: TypedBodies | None = None) -> Any:
    """Return what reads messages under a reader schema; `module` is `sowline_native`.

    `bodies` reads the messages of types that have schemas.
    """
    if reader.type in (AVRO, PROTOBUF):
        return partial(_read, bodies, reader.digest)
    return module.MessagePackReader() if reader.type == MSGPACK else _fix_reader(module, reader)


def _read(bodies: TypedBodies | None, digest: str, value: bytes) -> ReadBody | None:
    """Return a whole record; None if it is refused: then the Python core gives the reason."""
    try:
        return None if bodies is None else bodies.read(value, digest)
    except SowlineError:
        return None


def _fix_reader(module: Any, reader: Schema) -> Any:
    options = FixOptions(reader)
    ranks = FixSession(options).ranks if options.is_fix else {}
    computed = (BODY_LENGTH, CHECK_SUM) if options.is_fix else ()
    # Python reads messages with these fields: data may contain the separator, and a group repeats its tags.
    left = {*options.all_groups, *map(options.name_of, (*options.data, *computed))}
    return module.FixReader(
        options.is_fix,
        options.separator,
        {tag.encode(): name.encode() for tag, name in options.names.items()},
        {name.encode(): rank for name, rank in ranks.items()},
        {name.encode() for name in left},
    )
