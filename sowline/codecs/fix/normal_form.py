"""The canonical JSON of a record or delta, from JSON that a client or an enrichment made."""

from decimal import Decimal
from typing import Any, Final

import msgspec

from sowline.codecs.errors import bad_message
from sowline.codecs.fix.document import Document, arranged_entries
from sowline.codecs.fix.fields import BYTES_KEY, bytes_of, is_bytes, value_of
from sowline.codecs.fix.options import FixOptions, GroupMembers
from sowline.codecs.schemaless import excerpt
from sowline.errors import SowlineError
from sowline.model.body import why_not_json
from sowline.model.nesting import check_nesting

_ZEROS_MAX: Final = 400
"""A bound above the characters that a finite double needs without an exponent."""


class _Digits(str):
    """The text of a number with a point or an exponent."""

    __slots__ = ()


_decode = msgspec.json.Decoder(float_hook=_Digits).decode


def document_in(body: bytes) -> Document:
    """Return parsed JSON; numbers with a point or an exponent as their text. Raise `bad message`."""
    try:
        check_nesting(body)
        document = _decode(body)
    except SowlineError as error:
        raise bad_message(error.message) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_message(why_not_json(body, error)) from error
    if not isinstance(document, dict) or not document:
        raise bad_message("expected a JSON object with the fields of a message, got none")
    return document


class FixNormalizer:
    """Checks fields and brings them into canonical form, except for their order."""

    def __init__(self, options: FixOptions) -> None:
        self._options = options
        self._computed = {options.name_of(length) for length in options.data}
        self._data = {options.name_of(tag) for tag in options.lengths}

    def named(self, document: Document) -> Document:
        """Return a document with the name of each field, from names or tags; raise `bad message`."""
        options = self._options
        # With a dictionary, a tag that was checked before still has a name (test_json_has_the_names_of_a_dictionary).
        if not options.tags and options.is_known(document):
            return document
        found = {options.name_of(options.tag_of(name)): value for name, value in document.items()}
        # One of the two values would be lost (test_json_with_names_that_no_message_has).
        if len(found) < len(document):
            raise bad_message("expected each field once, got one by its name and by its tag")
        return found

    def values(self, document: Document, groups: GroupMembers) -> Document:
        """Return a message, whose fields have their names, with canonical values."""
        computed = self._computed.intersection(document)
        if computed:
            raise bad_message(f"expected no {excerpt(min(computed))}: it is computed from the data field")
        if self._is_canonical(document, groups):
            return document
        return {name: self._value(name, value, groups) for name, value in document.items()}

    def _is_canonical(self, document: Document, groups: GroupMembers) -> bool:
        """Return whether a message has only texts without a separator: most do, and need no other check."""
        if not groups.keys().isdisjoint(document) or set(map(type, document.values())) != {str}:
            return False
        return self._options.separator not in "".join(document.values())

    def _value(self, name: str, value: Any, groups: GroupMembers) -> Any:
        if name in groups:
            return self._entries(name, value, groups)
        if not isinstance(value, list):
            return self.single(name, value)
        if not value:
            raise bad_message(f"expected at least one value in {excerpt(name)}, got an empty array")
        values = [self.single(name, one) for one in value]
        # From its message, a single value is read as a text: an array of one would be another text of the same record
        # (test_entries_and_values_are_canonical).
        return values if len(values) > 1 else values[0]

    def _entries(self, name: str, value: Any, groups: GroupMembers) -> list[Document]:
        if not isinstance(value, list) or not all(isinstance(entry, dict) and entry for entry in value):
            raise bad_message(
                f"expected an array of objects with the entries of the group {excerpt(name)}, got {str(value)[:60]}"
            )
        return arranged_entries(name, [self._entry(name, entry, groups) for entry in value], groups)

    def _entry(self, count_name: str, entry: Document, groups: GroupMembers) -> Document:
        entry = self.named(entry)
        found: Document = {}
        for name, value in entry.items():
            if name not in groups[count_name] or name in self._computed:
                raise bad_message(
                    f"expected members of the group {count_name} in its entries, got {excerpt(name)}: name it in the"
                    " topic's groups"
                )
            found[name] = self._entries(name, value, groups) if name in groups else self.single(name, value)
        return found

    def single(self, name: str, value: Any) -> Any:
        """Return one value: a text, or bytes that are not UTF-8."""
        if is_bytes(value):
            data = bytes_of(value)
            # Bytes that are UTF-8 are read as a text (test_bytes_that_are_not_utf8_are_base64).
            value = value_of(data)
            # A value with a separator would be read as several fields, but for data: its length is written before it
            # (test_data_fields_may_contain_the_separator).
            is_split = self._options.separator.encode() in data
        else:
            value = _text(name, value)
            is_split = self._options.separator in value
        if is_split and name not in self._data:
            raise bad_message(f"expected no separator in the value of {excerpt(name)}, got one")
        return value


def _text(name: str, value: Any) -> str:
    """Return the text of a scalar."""
    if type(value) is str:
        return value
    if value is None:
        return ""
    # Before integers: in Python, true is one.
    if isinstance(value, bool):
        return "Y" if value else "N"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, _Digits):
        return _plain(value)
    kind = "an array" if isinstance(value, list) else "an object"
    raise bad_message(
        f"expected a text, a number, a boolean or null in {excerpt(name)}, got {kind}: only groups have entries, and"
        f" bytes are written as {{{BYTES_KEY!r}: base64}}"
    )


def _plain(digits: _Digits) -> str:
    """Return a number without an exponent, which FIX does not have."""
    if "e" not in digits and "E" not in digits:
        return str(digits)
    number = Decimal(digits)
    # `1e999999999` would become a gigabyte of zeros.
    if not -_ZEROS_MAX <= number.adjusted() <= _ZEROS_MAX:
        raise bad_message(f"expected a number that a double has, got {excerpt(digits)}")
    return format(number, "f")
