"""Whether a disk has space. The test writes a file, because quotas and volumes do not report their free space."""

import os
from pathlib import Path
from tempfile import TemporaryFile

SPACE_BYTES = 64 << 20
"""The most that a store writes when it is opened: the content of its write-ahead log."""


def has_disk_space(directory: Path, size_bytes: int = SPACE_BYTES) -> bool:
    """Return whether the disk of a directory has room for a file of this size; the file is removed again."""
    try:
        with TemporaryFile(dir=directory) as file:
            # Allocated, because a file that is only extended takes no space, also on a full disk.
            os.posix_fallocate(file.fileno(), 0, size_bytes)
    except OSError:
        return False
    return True
