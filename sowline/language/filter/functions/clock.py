"""The functions that depend on the current time or on randomness. All others depend on the record only.

They get both from `clock` and `entropy`, which a test can replace.
"""

import os
from datetime import UTC, datetime
from uuid import UUID

from sowline.language.filter.functions.dates import date_of
from sowline.language.filter.functions.registry import Function, text
from sowline.model.path import Scalar


def clock() -> float:
    """Return the current time in seconds since 1970, to the microsecond."""
    return datetime.now(UTC).timestamp()


def entropy(size_bytes: int) -> bytes:
    """Return `size_bytes` random bytes."""
    return os.urandom(size_bytes)


def unix_timestamp() -> float:
    """Return the current time in seconds since 1970."""
    return clock()


def today(zone: str = "Z") -> Scalar:
    """Return the current date, in UTC unless an offset is given."""
    return date_of(clock(), zone)


def uuid7() -> str:
    """Return a new UUID of version 7: milliseconds since 1970, then random bits."""
    milliseconds = int(clock() * 1000) & (1 << 48) - 1
    bits = milliseconds << 80 | int.from_bytes(entropy(10))
    version, variant = 0x7 << 76, 0b10 << 62
    return str(UUID(int=bits & ~(0xF << 76) & ~(0b11 << 62) | version | variant))


FUNCTIONS = (
    Function("UNIX_TIMESTAMP", (), unix_timestamp, deterministic=False),
    Function("UUID7", (), uuid7, deterministic=False),
    Function("TODAY", (text,), today, optional=1, deterministic=False),
    Function("TODAY_UTC", (), today, deterministic=False),
)
