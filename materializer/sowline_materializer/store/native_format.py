"""What the native core reads messages with that are not JSON. The codec of a message type is the specification."""

from typing import Any, Final

from sowline.codecs.fix.options import BODY_LENGTH, CHECK_SUM, FixOptions
from sowline.codecs.fix.session import FixSession
from sowline.codecs.schema import FIX, MSGPACK, NVFIX, Schema

FORMATS: Final = frozenset({FIX, NVFIX, MSGPACK})
"""The message types that the native core reads."""


def native_format(module: Any, reader: Schema) -> Any:
    """Return what reads messages under these options; `module` is `sowline_native`."""
    return module.MessagePackReader() if reader.type == MSGPACK else _fix_reader(module, reader)


def _fix_reader(module: Any, reader: Schema) -> Any:
    options = FixOptions(reader)
    ranks = FixSession(options).ranks if options.is_fix else {}
    computed = (BODY_LENGTH, CHECK_SUM) if options.is_fix else ()
    left = {*options.all_groups, *map(options.name_of, (*options.data, *computed))}
    return module.FixReader(
        options.is_fix,
        options.separator,
        {tag.encode(): name.encode() for tag, name in options.names.items()},
        {name.encode(): rank for name, rank in ranks.items()},
        {name.encode() for name in left},
    )
