"""Identifies the record that a body belongs to: its key text, its SOW key, and the partition that owns it."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import orjson

from sowline.errors import SowlineError
from sowline.model.json_parts import Part

KEY_BYTES_MAX = 4096
SUPPLIED_BYTES_MAX = 255
"""The longest key that a publisher or a key generator may give, in bytes of UTF-8."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_BASE64 = re.compile(r"[A-Za-z0-9+/=_-]+")


def key_text(document: Mapping[str, Any], paths: Sequence[tuple[str, ...]]) -> str:
    """Return the key text of a JSON document: the text of its key field, or a JSON array of the texts of several.

    Integers are written in decimal, booleans as `true` and `false`. So `1` and `"1"` are the same record.
    Raise `key missing`, `key null`, `key empty` or `bad key` if a field can't be a key.
    """
    if len(paths) == 1:
        path = paths[0]
        value = document.get(path[0]) if len(path) == 1 else None
        if type(value) is str:
            text = value
        elif type(value) is int:
            text = str(value)
        else:
            text = _field_text(document, path)
    else:
        # With a plain separator, the fields ("a-b", "c") and ("a", "b-c") would have the same key
        # (test_a_separator_in_a_field_does_not_forge_another_key).
        text = orjson.dumps([_field_text(document, path) for path in paths]).decode()
    if not text:
        raise SowlineError(
            "key empty",
            f"expected at least one character in the key field {_name(paths[0])}, got an empty string",
        )
    # A character has at most 4 bytes in UTF-8, so a short key need not be encoded.
    if len(text) * 4 > KEY_BYTES_MAX:
        check_key_size(text)
    return text


def stored_key_text(document: Mapping[str, Any], paths: Sequence[tuple[str, ...]]) -> str:
    """Return the key text of a stored body. It may be empty: earlier versions accepted that as a key."""
    try:
        return key_text(document, paths)
    except SowlineError as error:
        if error.reason == "key empty":
            return ""
        raise


def check_key_text(text: str, paths: Sequence[tuple[str, ...]]) -> None:
    """Raise `key missing` or `bad key` unless the text is one that `key_text` can return."""
    if not text:
        raise SowlineError("key missing", "expected a key that names the document, got none")
    check_key_size(text)
    # `["a", "b"]` and `["a","b"]` are the same array. A document that is written under the first would never be found
    # by its fields, which give the second (test_a_text_that_no_fields_give_is_refused).
    if len(paths) > 1 and (spelled := orjson.dumps(_texts_of(text, len(paths))).decode()) != text:
        raise SowlineError("bad key", f"expected {spelled[:60]} for a key, got {text[:60]}")


def check_supplied(text: str) -> str:
    """Return a key from a publisher or a generator if it is valid; raise `key missing` or `bad key`."""
    if not text:
        raise SowlineError("key missing", "expected a SOW key, got none")
    check_key_size(text, SUPPLIED_BYTES_MAX)
    if found := _CONTROL.search(text):
        raise SowlineError("bad key", f"expected a key without control characters, got {found[0]!r} in it")
    return text


def check_header_key(text: str) -> str:
    """Return a key from the header `sow.key` if it is valid; raise `key missing` or `bad key`."""
    check_supplied(text)
    if not _BASE64.fullmatch(text):
        raise SowlineError(
            "bad key",
            f"expected letters, digits and + / = - _ (Base64 and URL-safe Base64) in sow.key, got {text[:60]!r}",
        )
    return text


def check_key_size(text: str, bytes_max: int = KEY_BYTES_MAX) -> None:
    """Raise `bad key` for a key that is too large or not valid UTF-8."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise SowlineError("bad key", f"expected a key in valid UTF-8: {error}") from None
    if size > bytes_max:
        raise SowlineError("bad key", f"expected a key of at most {bytes_max} bytes, got {size}")


def require_same_key(document: Mapping[str, Any], paths: Sequence[tuple[str, ...]], text: str) -> None:
    """Raise `key changed` if a document contains a key field whose value differs from its key text."""
    if not paths:
        return
    expected = [text] if len(paths) == 1 else _texts_of(text, len(paths))
    for path, own in zip(paths, expected, strict=True):
        try:
            found = _field_text(document, path)
        except SowlineError as error:
            if error.reason == "key missing":
                continue
            raise
        if found != own:
            raise SowlineError(
                "key changed", f"expected {own!r} or nothing in the key field {_name(path)}, got {found!r}"
            )


def _texts_of(text: str, count: int) -> list[str]:
    try:
        texts: Part = orjson.loads(text)
    except orjson.JSONDecodeError:
        texts = None
    if not isinstance(texts, list) or len(texts) != count or not all(isinstance(one, str) for one in texts):
        raise SowlineError(
            "bad key", f"expected a JSON array of {count} strings for a key, got {text[:60]!r}"
        )
    return texts


def _field_text(document: Mapping[str, Any], path: tuple[str, ...]) -> str:
    value: Mapping[str, Any] | Part = document
    for step in path:
        if not isinstance(value, Mapping) or step not in value:
            raise SowlineError(
                "key missing", f"expected the key field {_name(path)}, which the body does not have"
            )
        value = value[step]
    if isinstance(value, str):
        return value
    if type(value) is int:
        return str(value)
    # A boolean is an `int` to `isinstance`, so the integers above are compared by `type`.
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        raise SowlineError("key null", f"expected a value in the key field {_name(path)}, got null")
    raise SowlineError(
        "bad key",
        f"expected a string, an integer or a boolean in the key field {_name(path)}, got {_kind(value)}",
    )


def _kind(value: Any) -> str:
    if not isinstance(value, float):
        return "an object" if isinstance(value, dict) else "an array"
    # The parser reads an integer beyond 64 bits as a float. Two such integers can become the same float, and two
    # records one (test_an_integer_beyond_64_bits_is_no_key).
    if abs(value) >= 2**63:
        return f"a number beyond 64 bits (about {value:g}): write it as a string"
    return f"a number with a fraction or an exponent ({value!r}): write an integer or a string"


def _name(path: tuple[str, ...]) -> str:
    return "/" + "/".join(path)


@lru_cache(maxsize=1 << 17)
def sow_key(domain_prefix: bytes, text: str) -> bytes:
    """Return the SOW key: 64 bits of BLAKE2b over key domain, a zero byte and key text, in decimal digits.

    `domain_prefix` is the key domain in UTF-8, followed by the zero byte.
    """
    hash = _domain_hash(domain_prefix).copy()
    hash.update(text.encode())
    return b"%d" % int.from_bytes(hash.digest(), "big")


@lru_cache(maxsize=256)
def _domain_hash(domain_prefix: bytes) -> blake2b:
    """Return a hash that has read the domain. Copying it costs half as much as starting a new hash."""
    return blake2b(domain_prefix, digest_size=8)


def digest_of(key: bytes) -> int:
    """Return the 8-byte BLAKE2b of a SOW key as an integer, most significant byte first."""
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "big")


def hash_of(keys: Iterable[bytes]) -> int:
    """Return the XOR of the digests of SOW keys: the hash of a group, or of what a subscriber holds."""
    hash = 0
    for key in keys:
        hash ^= digest_of(key)
    return hash


def murmur2(data: bytes) -> int:
    """Return Kafka's murmur2 hash of the bytes, made positive as in Java's default partitioner."""
    length = len(data)
    h = 0x9747B28C ^ length
    whole = length & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * 0x5BD1E995 & 0xFFFFFFFF
        h = (h * 0x5BD1E995 & 0xFFFFFFFF) ^ ((k ^ (k >> 24)) * 0x5BD1E995 & 0xFFFFFFFF)
    if length & 3:
        h = (h ^ int.from_bytes(data[whole:], "little")) * 0x5BD1E995 & 0xFFFFFFFF
    h = (h ^ (h >> 13)) * 0x5BD1E995 & 0xFFFFFFFF
    return (h ^ (h >> 15)) & 0x7FFFFFFF


def partition_of(text: str, partitions: int) -> int:
    """Return the partition that owns the record with this key text."""
    return murmur2(text.encode()) % partitions
