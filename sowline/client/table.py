"""Reads the answer of a service as a table, with pyarrow."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import orjson

from sowline.errors import SowlineError
from sowline.version import installing
from sowline.wire.media_types import ARROW_END, ARROW_MESSAGE

if TYPE_CHECKING:
    import pyarrow as pa

Columns = Sequence[str] | Mapping[str, str | None]
"""The paths of fields, or paths with the types of their columns. None: the values decide."""


def table_reader() -> Callable[[bytes], "pa.Table"]:
    """Return what reads a stream; raise `not supported` if pyarrow is not installed."""
    try:
        from pyarrow import ipc
    except ImportError as error:
        raise SowlineError("not supported", f"expected pyarrow, for tables: {installing('arrow')}") from error

    def read(stream: bytes) -> "pa.Table":
        require_whole(stream)
        return ipc.open_stream(stream).read_all()

    return read


def require_whole(stream: bytes) -> None:
    """Raise the error that ends a stream; `not connected` if it ends without one."""
    if stream.endswith(ARROW_END):
        return
    # The error is JSON, in which the bytes of the mark can't occur.
    _, _, message = stream.rpartition(ARROW_MESSAGE)
    try:
        error = orjson.loads(message[4:])
        raise SowlineError(error["reason"], error["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise SowlineError("not connected", "expected a whole table, got a part: ask again") from None
