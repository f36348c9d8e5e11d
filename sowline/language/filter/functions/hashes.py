"""Standard hashes of a text in UTF-8: other programs compute the same values."""

import hashlib
from functools import cache

from sowline.language.filter.functions.registry import Function, text
from sowline.language.filter.regex import encoded

CRC32C = (32, 0x82F63B78)
"""Castagnoli's polynomial, reflected, as in iSCSI, ext4 and Kafka."""

CRC64_XZ = (64, 0xC96C5795D7870F42)
"""The polynomial of ECMA-182, reflected, as in the xz format: the most common one of 64 bits."""


@cache
def _table(bits: int, polynomial: int) -> tuple[int, ...]:
    table: list[int] = []
    for byte in range(256):
        remainder = byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (polynomial if remainder & 1 else 0)
        table.append(remainder)
    return tuple(table)


def _crc(source: str, bits: int, polynomial: int) -> int:
    # Not zlib's `crc32`, whose polynomial is another one.
    table, ones = _table(bits, polynomial), (1 << bits) - 1
    crc = ones
    for byte in encoded(source):
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ ones


def crc32(source: str) -> int:
    """Return the CRC-32C."""
    return _crc(source, *CRC32C)


def crc64(source: str) -> int:
    """Return the CRC-64/XZ."""
    return _crc(source, *CRC64_XZ)


def md5(source: str) -> str:
    """Return the MD5 as 32 lower-case hexadecimal digits. It is not secure against attackers."""
    return hashlib.md5(encoded(source), usedforsecurity=False).hexdigest()


FUNCTIONS = (
    Function("MD5", (text,), md5),
    Function("CRC32", (text,), crc32),
    Function("CRC64", (text,), crc64),
)
