"""The memory that all stores of a process share, regardless of their number and size.

RocksDB holds recent writes (write buffers) and blocks of its files in memory: records, indexes and filters. By
default each store has its own limits for the first two, and none for indexes and filters, which grow with the number
of keys. Here one cache holds all of them, and the memory of the write buffers counts against it.
"""

import ctypes
from typing import Final

from rocksdict import BlockBasedIndexType, BlockBasedOptions, Cache, Options, WriteBufferManager

from sowline.model.limits import MIB

BYTES_MAX: Final = 128 * MIB
"""Default memory that the stores of a process share."""

WRITE_BUFFER_BYTES_MAX: Final = 64 * MIB
WRITE_BUFFER_BYTES_MIN: Final = MIB // 4
"""Limits for one store. RocksDB writes a file for each buffer, and would merge many small ones."""

FILTER_BITS, BUFFER_FILTER_SHARE = 10, 0.05
"""Size of the filters that show without a look-up that a key is new: bits for each key on disk, and the share of a
write buffer."""

PART_BYTES: Final = 4096
"""Size of a part of an index or filter, the unit that is read from disk."""

M_ARENA_MAX: Final = -8
"""The number of the parameter in glibc's `malloc.h`."""

ARENAS_MAX: Final = 2

LIBC: Final = ctypes.CDLL(None)


class StoreMemory:
    """One block cache and one limit of write buffers for any number of stores.

    `bytes_max` is for both; half of it may be write buffers. The stores may exceed it for a moment, while a buffer is
    written to disk, and while scans hold blocks.
    """

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max, self._stores = bytes_max, 1
        self._cache = Cache(bytes_max)
        self._buffers = WriteBufferManager.new_write_buffer_manager_with_cache(
            bytes_max // 2, False, self._cache
        )

    def limit(self, bytes_max: int) -> None:
        """Change the limit, for stores that are open too."""
        self._bytes_max = bytes_max
        self._cache.set_capacity(bytes_max)
        self._buffers.set_buffer_size(bytes_max // 2)

    def share_among(self, stores: int) -> None:
        """Set the number of stores that there will be: those opened from now on get write buffers to match."""
        self._stores = max(1, stores)

    @property
    def write_buffer_bytes(self) -> int:
        """The write buffer of a store that is opened now. There may be two, one of which is being written to disk."""
        share = self._bytes_max // 4 // self._stores
        return min(WRITE_BUFFER_BYTES_MAX, max(WRITE_BUFFER_BYTES_MIN, share))

    @property
    def used_bytes(self) -> int:
        """The bytes that the stores hold in memory now."""
        return self._cache.get_usage()

    def set_up(self, options: Options) -> None:
        """Let a store that is opened with these options take its memory from this budget."""
        options.set_write_buffer_manager(self._buffers)
        options.set_write_buffer_size(self.write_buffer_bytes)
        # The size of the filter for whole keys, too, despite its name: with 0 there is none.
        options.set_memtable_prefix_bloom_ratio(BUFFER_FILTER_SHARE)
        options.set_memtable_whole_key_filtering(True)
        table = BlockBasedOptions()
        table.set_block_cache(self._cache)
        table.set_bloom_filter(FILTER_BITS, False)
        # In parts, because the cache holds indexes and filters: those of a large file, read whole, would evict most
        # other blocks.
        table.set_index_type(BlockBasedIndexType.two_level_index_search())
        table.set_partition_filters(True)
        table.set_metadata_block_size(PART_BYTES)
        table.set_cache_index_and_filter_blocks(True)
        table.set_pin_top_level_index_and_filter(True)
        options.set_block_based_table_factory(table)


def share_arenas() -> None:
    """Let this process's threads share a few of glibc's arenas: memory that is freed in one stays in it."""
    if (mallopt := getattr(LIBC, "mallopt", None)) is not None:
        mallopt(M_ARENA_MAX, ARENAS_MAX)


def return_freed_memory() -> None:
    """Return the whole pages that are free in glibc's arenas to the system; it takes some milliseconds of CPU.

    glibc itself returns only what is free at an arena's end, and blocks that leave RocksDB's cache lie anywhere.
    Other C libraries than glibc have no such function, and nothing is done.
    """
    if (trim := getattr(LIBC, "malloc_trim", None)) is not None:
        trim(0)


MEMORY: Final = StoreMemory()
"""The budget of this process."""
