"""The checksum of a store: the sum of the hashes of its entries, in any order."""

from typing import NamedTuple
from zlib import crc32


def entry_hash(key: bytes, data: bytes) -> int:
    """Return the hash of one entry; the store's checksum is the sum of all hashes, in any order."""
    # With the key: otherwise two entries whose bodies are swapped would leave the sum as it is.
    return crc32(data, crc32(key))


def expiry_entry(due: int, key: bytes) -> bytes:
    """Return the entry of the index of due times for a record that is due then (ms of log time)."""
    assert due >= 0, "a due time is in ms since 1970: only such sort as bytes"
    return due.to_bytes(8, "big") + key


def expiry_hash(due: bytes) -> int:
    """Return the hash of one entry of the index of due times; it is part of the checksum, too."""
    return crc32(due, 1)


class Checksum(NamedTuple):
    """The number of entries and the order-free sum of their hashes: finds entries that went missing."""

    entries: int = 0
    checksum: int = 0

    @classmethod
    def of(cls, entries: int, hashes: int) -> "Checksum":
        """Return the checksum of `count` entries, from the sum of their hashes, of which 64 bits count."""
        # The native core sums in 64 bits, and a difference of sums may be negative: both must give one number.
        return cls(entries, hashes & 0xFFFFFFFFFFFFFFFF)
