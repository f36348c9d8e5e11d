"""Assigns a document to one of n parts: by the MurmurHash3 (x86, 32 bits, seed 0) of its table and id."""

from sowline.language.emodb.intrinsics import Intrinsics

_MASK = 0xFFFFFFFF


def partition_of(about: Intrinsics, count: int) -> int | None:
    """Return the part, from 1 to `count`; None if table or id are unknown.

    The result is EmoDB's, to the bit: the hash -2**31 has no absolute value in 32 bits, so it may be less than 1.
    """
    if about.table is None or about.id is None:
        return None
    # Half of a surrogate pair has no bytes in UTF-8. Java writes a question mark for it, and a condition never raises
    # (test_an_id_that_utf8_cannot_hold_has_a_part).
    hashed = murmur3((about.table + about.id).encode("utf-8", "replace"))
    return 1 - 2**31 % count if hashed == -(2**31) else abs(hashed) % count + 1


def murmur3(data: bytes) -> int:
    """Return the hash as a signed number of 32 bits."""
    hashed = 0
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        hashed ^= _mixed(int.from_bytes(data[start : start + 4], "little"))
        hashed = (_rotated(hashed, 13) * 5 + 0xE6546B64) & _MASK
    hashed ^= _mixed(int.from_bytes(data[whole:], "little"))
    hashed = _finished(hashed ^ len(data))
    return hashed - 2**32 if hashed >= 2**31 else hashed


def _mixed(block: int) -> int:
    return _rotated(block * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _MASK


def _finished(hashed: int) -> int:
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _MASK
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _MASK
    return hashed ^ hashed >> 16
