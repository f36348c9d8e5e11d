"""Reads records in the form that is sent, many at once. Numbers stay exact. Pure."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from operator import attrgetter, methodcaller
from typing import Any

import msgspec
import orjson

from sowline.model.body import copied, write_body
from sowline.model.exact_numbers import write_exact


class SentRecord(msgspec.Struct, gc=False):
    """A record of a `sow` message."""

    data: dict[str, Any]
    sow_key: str = ""


class Digits(str):
    """A number with a fraction or an exponent, in the digits that it was written in."""

    __slots__ = ()


_read = msgspec.json.Decoder(list[SentRecord]).decode


def read_sow_records(records: Sequence[bytes]) -> list[SentRecord]:
    """Return parsed records. Integers are exact, other numbers are doubles."""
    return _read(_array(records))


def _array(records: Sequence[bytes]) -> bytes:
    # One array is read in less time than its records one by one.
    return b"[%b]" % b",".join(records)


class FieldReader:
    """Reads some fields of records, many at once; the values of other fields are skipped."""

    def __init__(self, names: Sequence[str]) -> None:
        self._fields = {name: f"f{at}" for at, name in enumerate(names)} if all(map(_is_plain, names)) else {}
        """The attributes of the fields; empty if msgspec can't make a struct of these names, and dicts are read."""
        kind = _struct_of(tuple(names)) if self._fields else SentRecord
        decoder = partial(msgspec.json.Decoder, list[kind])  # type: ignore[valid-type]
        self._read_doubles, self._read_digits = decoder().decode, decoder(float_hook=Digits).decode

    def read(self, records: Sequence[bytes], *, keeps_digits: bool) -> list[Any]:
        """Return parsed records, whose `data` a `getter` reads.

        Integers are exact; other numbers are doubles or, if it `keeps_digits`, `Digits`.
        """
        read = self._read_digits if keeps_digits else self._read_doubles
        return list(read(_array(records)))

    def getter(self, name: str) -> Callable[[Any], Any]:
        """Return a function of the `data` of a record: the value of one of the fields, None if there is none."""
        return attrgetter(self._fields[name]) if self._fields else methodcaller("get", name)


def _is_plain(name: str) -> bool:
    return name.isprintable() and not {*name} & {'"', "\\"}


# Tables are asked for again and again, and making a class takes longer than reading a hundred records.
@lru_cache(256)
def _struct_of(names: tuple[str, ...]) -> Any:
    fields = [(f"f{at}", Any, msgspec.field(default=None, name=name)) for at, name in enumerate(names)]
    data = msgspec.defstruct("Fields", fields, gc=False)
    return msgspec.defstruct("SentFields", [("data", data), ("sow_key", str, "")], gc=False)


def text_of(value: Any) -> str:
    """Return a value as text: a string unchanged, anything else as JSON. Numbers have been read as `Digits`."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, dict | list):
        return write_body(copied(value, _with_digits)).decode()
    return write_exact(value).decode()


def _with_digits(part: Any) -> Any:
    """Return a number as the digits that it was written in."""
    # `str`: orjson takes no subclass of it.
    return orjson.Fragment(str(part)) if type(part) in (Digits, int) else part
