"""Keys: key text, SOW key and the partition that owns it."""

import re
from typing import Any

import orjson
import pytest

from sowline.errors import SowlineError
from sowline.model.key import (
    KEY_BYTES_MAX,
    check_header_key,
    check_key_text,
    check_supplied,
    digest_of,
    hash_of,
    key_text,
    murmur2,
    partition_of,
    require_same_key,
    sow_key,
    stored_key_text,
)

ONE = (("id",),)
TWO = (("a",), ("b", "c"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("abc", "abc"),
        (" 1 ", " 1 "),
        ("ü", "ü"),
        (1, "1"),
        (-7, "-7"),
        (0, "0"),
        (18446744073709551615, "18446744073709551615"),
        (True, "true"),
        (False, "false"),
    ],
)
def test_one_field_is_its_own_text(value: Any, text: str) -> None:
    """A string stands for itself, an integer for its decimal digits, a boolean for its name."""
    assert key_text({"id": value}, ONE) == text


def test_one_and_the_string_one_are_one_record() -> None:
    """`1` and `"1"` have the same key text; `true` and `1` do not."""
    assert key_text({"id": 1}, ONE) == key_text({"id": "1"}, ONE)
    assert key_text({"id": True}, ONE) != key_text({"id": 1}, ONE)


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"a": "a|b", "b": {"c": "c"}}, '["a|b","c"]'),
        ({"a": 1, "b": {"c": True}}, '["1","true"]'),
        ({"a": "", "b": {"c": ""}}, '["",""]'),
        ({"a": "ü", "b": {"c": 'x"'}}, '["ü","x\\""]'),
    ],
)
def test_several_fields_are_an_array_of_their_texts(document: dict[str, Any], text: str) -> None:
    """Several key fields make a JSON array of strings without spaces."""
    assert key_text(document, TWO) == text


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (("a|b", "c"), ("a", "b|c")),
        (('a","b', "c"), ("a", 'b","c')),
        (("a\0", "b"), ("a", "\0b")),
        (("1,2", "3"), ("1", "2,3")),
    ],
)
def test_a_separator_in_a_field_does_not_forge_another_key(
    left: tuple[str, str], right: tuple[str, str]
) -> None:
    """Records of different fields have different key texts, whatever the fields contain."""
    texts = {key_text({"a": a, "b": {"c": c}}, TWO) for a, c in (left, right)}
    assert len(texts) == 2


@pytest.mark.parametrize(
    ("document", "reason", "message"),
    [
        ({}, "key missing", "/id"),
        ({"ID": 1}, "key missing", "/id"),
        ({"id": None}, "key null", "null"),
        ({"id": ""}, "key empty", "empty string"),
        ({"id": 1.0}, "bad key", "a fraction or an exponent"),
        ({"id": 1e30}, "bad key", "beyond 64 bits"),
        ({"id": {}}, "bad key", "an object"),
        ({"id": [1]}, "bad key", "an array"),
    ],
)
def test_what_can_not_be_a_key_is_refused(document: dict[str, Any], reason: str, message: str) -> None:
    """Fractions, objects, arrays, null and missing fields are refused, and the error says which."""
    with pytest.raises(SowlineError, match=message) as error:
        key_text(document, ONE)
    assert error.value.reason == reason


def test_a_stored_key_may_be_empty() -> None:
    """A record that an earlier version stored under the empty key is still read; all other rules apply to it."""
    assert stored_key_text({"id": ""}, ONE) == ""
    assert stored_key_text({"id": 1}, ONE) == "1"
    with pytest.raises(SowlineError, match="null"):
        stored_key_text({"id": None}, ONE)


def test_an_integer_beyond_64_bits_is_no_key() -> None:
    """The parser reads such an integer as a float, and two of them may become one: refused."""
    with pytest.raises(SowlineError, match="beyond 64 bits"):
        key_text(orjson.loads(b'{"id":18446744073709551616}'), ONE)


def test_a_path_does_not_go_through_a_scalar() -> None:
    """A key field inside something that is no object is missing."""
    with pytest.raises(SowlineError) as error:
        key_text({"a": "x", "b": "y"}, TWO)
    assert error.value.reason == "key missing"


@pytest.mark.parametrize("letter", ["x", "ü"])
def test_a_key_has_a_largest_size(letter: str) -> None:
    """A key text of the limit is a key, in bytes of UTF-8; one more is not."""
    fits = letter * (KEY_BYTES_MAX // len(letter.encode()))
    assert key_text({"id": fits}, ONE) == fits
    with pytest.raises(SowlineError) as error:
        key_text({"id": fits + letter}, ONE)
    assert error.value.reason == "bad key"


def test_the_sow_key_is_64_bits_of_blake2b_in_decimal() -> None:
    """The SOW key of a text is the same everywhere and for ever; the domain is part of it."""
    import hashlib

    digest = hashlib.blake2b(b"orders\x00735", digest_size=8).digest()
    assert sow_key(b"orders\0", "735") == str(int.from_bytes(digest, "big")).encode()
    assert sow_key(b"orders\0", "735") != sow_key(b"trades\0", "735")


@pytest.mark.parametrize(
    ("text", "java"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(text: str, java: int) -> None:
    """The hash is that of Kafka's own tests, made positive as its default partitioner does."""
    assert murmur2(text.encode()) == java & 0x7FFFFFFF


def test_the_owner_of_a_key_is_javas_choice() -> None:
    """The partition is the hash of the key text modulo the number of partitions."""
    assert [partition_of("21", n) for n in (1, 2, 7)] == [(-973932308 & 0x7FFFFFFF) % n for n in (1, 2, 7)]


PLAIN = (("id",),)
PAIR = (("id",), ("client", "day"))


@pytest.mark.parametrize(
    ("text", "paths", "message"),
    [
        ("", PLAIN, "expected a key that names the document, got none"),
        ("x" * (KEY_BYTES_MAX + 1), PLAIN, "expected a key of at most 4096 bytes, got 4097"),
        ("\ud800", PLAIN, "expected a key in valid UTF-8"),
        ("a", PAIR, "expected a JSON array of 2 strings for a key, got 'a'"),
        ('["a"]', PAIR, "expected a JSON array of 2 strings"),
        ('["a",1]', PAIR, "expected a JSON array of 2 strings"),
        ('["a", "b"]', PAIR, 'expected ["a","b"] for a key, got ["a", "b"]'),
    ],
)
def test_a_text_that_no_fields_give_is_refused(
    text: str, paths: tuple[tuple[str, ...], ...], message: str
) -> None:
    """A document with such a key would never be found by its fields."""
    with pytest.raises(SowlineError, match=re.escape(message)):
        check_key_text(text, paths)


@pytest.mark.parametrize(("text", "paths"), [("a", PLAIN), ('["a","b"]', PAIR)])
def test_a_text_that_fields_give_is_a_key(text: str, paths: tuple[tuple[str, ...], ...]) -> None:
    """It is the text that they give."""
    check_key_text(text, paths)
    document = {"id": "a", "client": {"day": "b"}}
    assert key_text(document, paths) == text
    require_same_key(document, paths, text)


@pytest.mark.parametrize("text", ["a", "é/ ", "x" * 255])
def test_publishers_give_keys_without_control_characters(text: str) -> None:
    """Of up to 255 bytes."""
    assert check_supplied(text) == text
    for wrong, reason in ((text + "\n", "bad key"), ("x" * 256, "bad key"), ("", "key missing")):
        with pytest.raises(SowlineError) as error:
            check_supplied(wrong)
        assert error.value.reason == reason


@pytest.mark.parametrize(("text", "is_key"), [("aB0+/=-_", True), ("a b", False), ("é", False)])
def test_a_header_has_a_key_in_base64(text: str, is_key: bool) -> None:
    """Other characters don't pass all of Kafka's tools."""
    if is_key:
        assert check_header_key(text) == text
        return
    with pytest.raises(SowlineError, match="expected letters, digits and"):
        check_header_key(text)


def test_a_document_keeps_its_key() -> None:
    """A key field may be left out, and not changed."""
    require_same_key({"a": 1}, PLAIN, "5")
    require_same_key({"id": "other"}, (), "5")
    with pytest.raises(SowlineError, match="expected '5' or nothing in the key field /id, got '6'"):
        require_same_key({"id": 6}, PLAIN, "5")
    with pytest.raises(SowlineError, match="expected 'b' or nothing in the key field /client/day, got 'c'"):
        require_same_key({"client": {"day": "c"}}, PAIR, '["a","b"]')
    with pytest.raises(SowlineError) as error:
        require_same_key({"id": None}, PLAIN, "5")
    assert error.value.reason == "key null"


def test_the_hash_of_keys_does_not_depend_on_their_order() -> None:
    """Keys can be added and removed one by one."""
    keys = [b"1", b"2", b"3"]
    assert hash_of(keys) == hash_of(reversed(keys)) == hash_of(keys[:2]) ^ digest_of(b"3")
    assert hash_of([]) == 0
    assert digest_of(b"1") < 2**64
