"""Whether a disk has room: found out by taking some of it, because a quota or a volume tells nobody what is left."""

import os
from pathlib import Path
from tempfile import TemporaryFile

ROOM_BYTES = 64 << 20
"""What a store writes at most when it is opened: all that its write-ahead log holds."""


def has_room(directory: Path, size: int = ROOM_BYTES) -> bool:
    """Tell whether the disk of a directory takes a file of this size; nothing of it is left there."""
    try:
        with TemporaryFile(dir=directory) as file:
            os.posix_fallocate(file.fileno(), 0, size)
    except OSError:
        return False
    return True
