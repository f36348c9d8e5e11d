"""The interface of a partition's store: records by SOW key, the expiry index and the checkpoint."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from materializer.store.checksum import Checksum

NO_EXPIRIES: Mapping[bytes, bool] = {}


class Store(Protocol):
    """What a partition needs from its store.

    Any read may raise `StoreDamaged` or `NoDescriptors`; any write may also raise `DiskFull`.
    """

    def get(self, key: bytes) -> bytes | None:
        """Return the bytes under the key."""

    def scan(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield all entries in key order, as they were when the scan began."""

    def expiries(self, start: bytes = b"") -> Iterator[bytes]:
        """Yield the index of due times from `start` on: due time (8 bytes, the highest first) and key, in order."""

    def checkpoint(self) -> bytes | None:
        """Return the checkpoint's bytes; None if nothing was ever committed."""

    def checksum(self) -> Checksum:
        """Return the checksum of the last commit."""

    def commit(
        self,
        writes: Mapping[bytes, bytes | None],
        checksum: Checksum,
        checkpoint: bytes,
        expiries: Mapping[bytes, bool] = NO_EXPIRIES,
    ) -> None:
        """Write entries (None removes one), due times (False removes one), checksum and checkpoint in one atomic
        step.
        """

    def close(self) -> None:
        """Close the files."""
