"""Whether a disk has space. The test writes a file, because quotas and volumes do not report their free space."""

import os
from pathlib import Path
from tempfile import TemporaryFile

SPACE_BYTES = 64 << 20
"""What a store writes at most when it is opened: all that its write-ahead log holds."""


def has_disk_space(directory: Path, size: int = SPACE_BYTES) -> bool:
    """Tell whether the disk of a directory takes a file of this size; nothing of it is left there."""
    try:
        with TemporaryFile(dir=directory) as file:
            os.posix_fallocate(file.fileno(), 0, size)
    except OSError:
        return False
    return True
