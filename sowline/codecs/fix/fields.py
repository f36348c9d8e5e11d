"""Splits a message into its fields, and joins fields to a message."""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Any, Final

from sowline.codecs.errors import bad_message
from sowline.codecs.fix.options import FixOptions
from sowline.codecs.schemaless import excerpt

FIELDS_MAX: Final = 100_000
"""The maximum number of fields in a message: a field takes far more memory than its bytes."""

BYTES_KEY: Final = "$base64"
"""The member of an object that stands in JSON for a value that is not UTF-8."""

_NUMBER_DIGITS_MAX: Final = 9

FieldValue = str | dict[str, str]
"""A text, or an object with `BYTES_KEY`."""

Fields = tuple[list[str], list[Any]]
"""The tags of a message in order, each with its `FieldValue`. The lengths of data fields are left out."""


def split(data: bytes, options: FixOptions) -> Fields:
    """Return the fields of a message; raise `bad message`."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _scanned(data, options)
    separator = options.separator
    # `_scanned` stops at the limit, before the fields take memory (test_hostile_messages_are_refused_within_bounds).
    if text.count(separator) > FIELDS_MAX:
        return _scanned(data, options)
    # Behind the last separator there is no field, and not even an empty one (test_a_message_of_the_standard_has_soh).
    parts = text.removesuffix(separator).split(separator)
    split_parts = [part.partition("=") for part in parts]
    tags = [part[0] for part in split_parts]
    equals = [part[1] for part in split_parts]
    # Data may contain the separator, so its length must be read before it is split
    # (test_data_fields_may_contain_the_separator).
    if not options.data.keys().isdisjoint(tags):
        return _scanned(data, options)
    if "" in equals:
        raise _no_equals(parts[equals.index("")])
    options.check_tags(tags)
    return tags, [part[2] for part in split_parts]


def _scanned(data: bytes, options: FixOptions) -> Fields:
    """Return the fields of a message that may have data fields, or bytes that are not UTF-8."""
    separator = options.separator.encode()
    tags: list[str] = []
    values: list[FieldValue] = []
    at = 0
    # At least once: an empty message is refused like a field without `=`.
    while at < len(data) or not tags:
        if len(tags) == FIELDS_MAX:
            raise bad_message(f"expected at most {FIELDS_MAX} fields, got more")
        end = _end(data, separator, at)
        equals = data.find(b"=", at, end)
        if equals < 0:
            raise _no_equals(data[at:end])
        tag = _decoded_tag(data[at:equals])
        value = data[equals + 1 : end]
        if tag in options.data:
            tag, value, end = _data_field(data, options, tag, value, end)
        tags.append(tag)
        values.append(value_of(value))
        at = end + 1
    options.check_tags(tags)
    return tags, values


def _end(data: bytes, separator: bytes, at: int) -> int:
    end = data.find(separator, at)
    return len(data) if end < 0 else end


def _decoded_tag(tag: bytes) -> str:
    try:
        return tag.decode()
    except UnicodeDecodeError as error:
        raise bad_message(f"expected a tag or name in UTF-8, got {excerpt(tag)}") from error


def _data_field(
    data: bytes, options: FixOptions, length_tag: str, length: bytes, end: int
) -> tuple[str, bytes, int]:
    """Return the tag of the data field that follows a length, its value, and where it ends."""
    tag = options.data[length_tag]
    start = end + 1 + len(tag.encode()) + 1
    if data[end + 1 : start] != f"{tag}=".encode():
        raise bad_message(
            f"expected the data field {tag} after its length {length_tag},"
            f" got {excerpt(data[end + 1 : start]) if end < len(data) else 'the end'}"
        )
    # The length may claim any number of bytes (test_data_of_another_length_is_refused).
    size = count_of(length_tag, length.decode(errors="replace"))
    after = start + size
    if size > len(data) - start or data[after : after + 1] not in (b"", options.separator.encode()):
        raise bad_message(
            f"expected {size} bytes and the separator in the data field {tag}, the value of its length {length_tag},"
            " got another length: count bytes, not characters"
        )
    return tag, data[start:after], after


def count_of(tag: str, text: Any) -> int:
    """Return the number in a count or length; raise `bad message`."""
    if (
        not isinstance(text, str)
        # Python also reads digits of other scripts.
        or not text.isascii()
        or not text.isdecimal()
        or len(text) > _NUMBER_DIGITS_MAX
    ):
        got = excerpt(text) if isinstance(text, str) else "bytes"
        raise bad_message(
            f"expected a number of at most {_NUMBER_DIGITS_MAX} digits in {excerpt(tag)}, got {got}"
        )
    return int(text)


def _no_equals(field: str | bytes) -> Exception:
    if not field:
        return bad_message("expected fields like tag=value with one separator after each, got an empty one")
    return bad_message(f"expected fields like tag=value with one separator after each, got {excerpt(field)}")


def value_of(value: bytes) -> FieldValue:
    """Return the value of these bytes."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {BYTES_KEY: b64encode(value).decode()}


def is_bytes(value: Any) -> bool:
    """Return whether a value of JSON stands for bytes."""
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get(BYTES_KEY), str)


def bytes_of(value: FieldValue) -> bytes:
    """Return the bytes of a value; raise `bad message`."""
    if isinstance(value, str):
        return value.encode()
    text = value[BYTES_KEY]
    try:
        return b64decode(text, validate=True)
    except (Base64Error, ValueError) as error:
        raise bad_message(f"expected base64 in {BYTES_KEY}, got {excerpt(text)}") from error


def join(tags: list[str], values: list[Any], options: FixOptions) -> bytes:
    """Return the fields as a message; data fields get their length. Raise `bad message` for too many."""
    if len(tags) > FIELDS_MAX:
        raise bad_message(f"expected at most {FIELDS_MAX} fields, got {len(tags)}")
    separator = options.separator
    # An object stands for bytes that are not UTF-8: no text holds them (test_a_message_is_its_fields_in_order).
    if options.lengths.keys().isdisjoint(tags) and dict not in set(map(type, values)):
        return "".join(
            [f"{tag}={value}{separator}" for tag, value in zip(tags, values, strict=True)]
        ).encode()
    parts: list[bytes] = []
    for tag, value in zip(tags, values, strict=True):
        data = bytes_of(value)
        if tag in options.lengths:
            parts.append(f"{options.lengths[tag]}={len(data)}{separator}".encode())
        parts.append(f"{tag}=".encode() + data + separator.encode())
    return b"".join(parts)
