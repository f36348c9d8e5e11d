"""Maps and indexes of a view with joins: in memory as far as its limit allows, and beyond that on a disk. Pure.

Changed entries are kept in memory. When all maps and indexes of a view together exceed the limit, the largest one
moves its entries to the disk. It then keeps only later changes in memory, and reads everything else from the disk. So
a small topic stays in memory next to a large one.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final, Generic, Protocol, TypeVar

V = TypeVar("V")

ENTRY_BYTES: Final = 200
"""Approximate bytes in memory of an entry, in addition to its key and value."""

_NUMBER: Final = Struct(">I")
_COUNT: Final = Struct(">Q")


class SpillDisk(Protocol):
    """Entries in the order of their keys. Nothing outlives the process."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key."""

    def write(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Write entries; None removes one."""

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries whose keys begin with `prefix`, without it, as they are when the scan begins."""
        ...

    def remove(self, prefix: bytes) -> None:
        """Remove the entries whose keys begin with `prefix`."""


class SpillSpace:
    """The memory of a view's maps and indexes, and the disk for the rest, opened when it is first needed."""

    def __init__(
        self, open_disk: Callable[[], SpillDisk] | None = None, bytes_max: int = sys.maxsize
    ) -> None:
        """`bytes_max` is for all maps and indexes together. Without a disk there is no limit."""
        self._open_disk = open_disk
        self.bytes_max = sys.maxsize if open_disk is None else bytes_max
        self._disk: SpillDisk | None = None
        self._parts: dict[bytes, _Spilling] = {}
        self._added = 0
        self.bytes = 0
        """The approximate bytes in memory."""

    @property
    def disk(self) -> SpillDisk:
        """The disk."""
        if self._disk is None:
            assert self._open_disk is not None, "only a space with a disk uses it"
            self._disk = self._open_disk()
        return self._disk

    def add(self, part: "_Spilling") -> bytes:
        """Add a map or an index; return the prefix of its keys on the disk."""
        # Never `len(self._parts)`: after a removal, a new map would get the entries of another on the disk
        # (test_a_new_map_has_its_own_keys_on_the_disk).
        prefix = _NUMBER.pack(self._added)
        self._added += 1
        assert prefix not in self._parts, "each map and index has its own keys on the disk"
        self._parts[prefix] = part
        return prefix

    def remove(self, part: "_Spilling") -> None:
        """Remove a map or an index with all its entries."""
        del self._parts[part.prefix]
        self.bytes -= part.bytes
        assert self.bytes >= 0, "memory that was freed was counted"
        assert self._parts or self.bytes == 0, "a space without maps and indexes has no bytes"
        if part.is_spilled:
            self.disk.remove(part.prefix)

    def spill(self) -> None:
        """Move the entries of the map or index with the most bytes in memory to the disk."""
        max(self._parts.values(), key=lambda part: part.bytes).spill()


class _Spilling:
    """The common part of maps and indexes."""

    def __init__(self, space: SpillSpace) -> None:
        self._space = space
        self.bytes = 0
        """The approximate bytes in memory."""
        self.is_spilled = False
        """Whether the disk may have some of its entries."""
        self.prefix = space.add(self)

    def spill(self) -> None:
        """Move all entries in memory to the disk."""
        assert self._space.bytes >= self.bytes >= 0, "the space counts the bytes of its parts"
        self._space.disk.write(self._moved())
        self._space.bytes -= self.bytes
        self.bytes = 0
        self.is_spilled = True

    def _moved(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Take out the entries in memory, and yield them in the form of the disk; None for a removed one."""
        raise NotImplementedError

    def _grow(self, more: int) -> None:
        self.bytes += more
        self._space.bytes += more
        assert self.bytes >= 0, "memory that was freed was counted"
        # The caller has stored its entry already: this may spill the caller, too.
        if self._space.bytes > self._space.bytes_max:
            self._space.spill()

    def close(self) -> None:
        """Remove all entries, and free their memory. Call nothing else afterwards."""
        self._space.remove(self)
        self._moved()


@dataclass(frozen=True)
class SpillCodec(Generic[V]):
    """How the values of a map are stored on the disk, and the approximate bytes of one in memory."""

    encode: Callable[[V], bytes]
    decode: Callable[[bytes, bytes], V]
    """Return the value from its key and its bytes."""
    size: Callable[[V], int]


BYTES: Final = SpillCodec[bytes](encode=lambda value: value, decode=lambda key, data: data, size=len)
"""The codec of bodies."""


class SpillMap(_Spilling, Generic[V]):
    """Values by key."""

    def __init__(self, space: SpillSpace, codec: SpillCodec[V]) -> None:
        super().__init__(space)
        self._codec = codec
        self._memory: dict[bytes, V | None] = {}
        """None for a key that was removed, while the disk may have it."""
        self._last_key: bytes | None = None
        self._last: V | None = None
        """The key that was read from the disk last, and its value. A change reads the same match up to four times."""

    def get(self, key: bytes) -> V | None:
        """Return the value of a key."""
        value = self._memory.get(key)
        # None in memory is a removal that the disk has not seen yet.
        if value is not None or not self.is_spilled or key in self._memory:
            return value
        if key != self._last_key:
            data = self._space.disk.get(self.prefix + key)
            self._last_key, self._last = key, None if data is None else self._codec.decode(key, data)
        return self._last

    def __setitem__(self, key: bytes, value: V) -> None:
        """Set the value of a key."""
        before, size = self._memory.get(key), self._codec.size(value)
        if before is not None:
            size -= self._codec.size(before)
        # A removal that is noted has its entry counted already.
        elif key not in self._memory:
            size += ENTRY_BYTES + len(key)
        self._memory[key] = value
        # Once this value has spilled, `get` would return the one that was read before.
        self._last_key = None
        self._grow(size)

    def remove(self, key: bytes) -> None:
        """Remove the value of a key, if it has one."""
        is_held, before = key in self._memory, self._memory.pop(key, None)
        more = 0 if before is None else -self._codec.size(before)
        if self.is_spilled:
            self._memory[key] = None
        # The key takes memory if it was there before, and afterwards if it marks a removal.
        if is_held != self.is_spilled:
            more += ENTRY_BYTES + len(key) if self.is_spilled else -ENTRY_BYTES - len(key)
        self._last_key = None
        assert (key in self._memory) is self.is_spilled, (
            "a removal is noted exactly while the disk may have the key"
        )
        self._grow(more)

    def values(self) -> Iterator[V]:
        """Yield all values, as they are when the iteration begins. Change none before it ends."""
        memory, is_spilled = self._memory, self.is_spilled
        on_disk = self._space.disk.scan(self.prefix) if is_spilled else iter(())
        yield from (value for value in memory.values() if value is not None)
        for key, data in on_disk:
            if key not in memory:
                yield self._codec.decode(key, data)

    def _moved(self) -> Iterator[tuple[bytes, bytes | None]]:
        # A new one, because `values` may be reading the one before.
        memory, self._memory = self._memory, {}
        encode = self._codec.encode
        return (
            (self.prefix + key, None if value is None else encode(value)) for key, value in memory.items()
        )


class SpillIndex(_Spilling):
    """Members by key, each with a count above 0."""

    def __init__(self, space: SpillSpace) -> None:
        super().__init__(space)
        self._memory: dict[bytes, dict[bytes, int]] = {}
        """0 for a member that was removed, while the disk may have it."""

    def add(self, key: bytes, member: bytes, count: int) -> None:
        """Add `count`, which is not 0, to a member's count. A member whose count becomes 0 is removed."""
        members = self._memory.get(key)
        if members is None:
            members = self._memory[key] = {}
        is_new = member not in members
        count += self._stored(key, member) if is_new else members[member]
        assert count >= 0, "a count of members is never negative"
        # A count of 0 hides the member on the disk until the removal is written there.
        if count or self.is_spilled:
            members[member] = count
            if is_new:
                self._grow(ENTRY_BYTES + len(key) + len(member))
        else:
            del members[member]
            if not members:
                del self._memory[key]
            self._grow(-ENTRY_BYTES - len(key) - len(member))

    def _stored(self, key: bytes, member: bytes) -> int:
        """Return the count of a member on the disk."""
        data = self._space.disk.get(self._under(key) + member) if self.is_spilled else None
        assert data is None or len(data) == _COUNT.size, "a count on the disk is whole"
        return 0 if data is None else int(_COUNT.unpack(data)[0])

    def _under(self, key: bytes) -> bytes:
        """Return the prefix of a key's members on the disk."""
        # The length keeps a scan for the key `a` from finding the members of the key `ab`.
        return self.prefix + _NUMBER.pack(len(key)) + key

    def has(self, key: bytes, member: bytes) -> bool:
        """Whether a key has this member."""
        count = self._memory.get(key, {}).get(member)
        return bool(self._stored(key, member) if count is None else count)

    def has_any(self, key: bytes) -> bool:
        """Whether a key has any members."""
        return any(True for _ in self._each(key))

    def members(self, key: bytes) -> Collection[bytes]:
        """Return the members of a key. The collection is valid until the index changes."""
        if not self.is_spilled:
            return self._memory.get(key, {}).keys()
        return list(self._each(key))

    def _each(self, key: bytes) -> Iterator[bytes]:
        memory = self._memory.get(key, {})
        yield from (member for member, count in memory.items() if count)
        if self.is_spilled:
            yield from (
                member for member, _ in self._space.disk.scan(self._under(key)) if member not in memory
            )

    def _moved(self) -> Iterator[tuple[bytes, bytes | None]]:
        memory, self._memory = self._memory, {}
        assert all(count >= 0 for members in memory.values() for count in members.values()), (
            "no count is below 0"
        )
        return (
            (self._under(key) + member, _COUNT.pack(count) if count else None)
            for key, members in memory.items()
            for member, count in members.items()
        )
