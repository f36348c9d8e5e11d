"""The part that a document falls in, by a hash that others compute as well."""

import pytest

from sowline.language.emodb.intrinsics import Intrinsics
from sowline.language.emodb.partition import murmur3, partition_of


@pytest.mark.parametrize(
    ("data", "hashed"),
    [
        (b"", 0),
        (b"test", 0xBA6BD213),
        (b"Hello, world!", 0xC0363E43),
        (b"The quick brown fox jumps over the lazy dog", 0x2E4FF723),
    ],
)
def test_the_hash_is_the_published_one(data: bytes, hashed: int) -> None:
    """MurmurHash3, x86, 32 bits, seed 0."""
    assert murmur3(data) % 2**32 == hashed


def test_table_and_id_are_one_text() -> None:
    """Where the table ends doesn't count."""
    assert partition_of(Intrinsics("bc", "a"), 1000) == partition_of(Intrinsics("c", "ab"), 1000)


def test_every_part_is_some_documents() -> None:
    """The parts begin with 1, and none is empty."""
    assert {partition_of(Intrinsics(f"k{n}", "item"), 7) for n in range(200)} == set(range(1, 8))


def test_a_hash_without_an_absolute_value_gives_no_part() -> None:
    """As in EmoDB, where it overflows."""
    about = Intrinsics("doc4185802527", "mytable")
    assert murmur3(b"mytabledoc4185802527") == -(2**31)
    assert (partition_of(about, 3), partition_of(about, 4)) == (-1, 1)


def test_what_is_not_known_has_no_part() -> None:
    """Neither table nor id is made up."""
    assert partition_of(Intrinsics(table="item"), 2) is None
    assert partition_of(Intrinsics(id="k"), 2) is None


def test_an_id_that_utf8_cannot_hold_has_a_part() -> None:
    """Half of a surrogate pair is hashed as a question mark."""
    assert partition_of(Intrinsics("\ud800", "item"), 100) == partition_of(Intrinsics("?", "item"), 100)
