"""The standard hashes, with values that other programs give."""

import pytest

from sowline.language.filter.functions.hashes import crc32, crc64, md5


@pytest.mark.parametrize(
    ("source", "crc_32", "crc_64", "digest"),
    [
        ("123456789", 0xE3069283, 0x995DC9BBDF1939FA, "25f9e794323b453885f5181f1b624d0b"),
        ("", 0, 0, "d41d8cd98f00b204e9800998ecf8427e"),
    ],
)
def test_the_check_values(source: str, crc_32: int, crc_64: int, digest: str) -> None:
    """The catalogs of CRCs and RFC 1321 list them."""
    assert (crc32(source), crc64(source), md5(source)) == (crc_32, crc_64, digest)


def test_a_text_is_hashed_in_utf8() -> None:
    """A half of a surrogate pair has a hash too."""
    assert md5("é") == "66ddcd97cfdeabb2f6fb8a999b4bc76f"
    assert crc32("\ud800") != crc32("\ud801")
