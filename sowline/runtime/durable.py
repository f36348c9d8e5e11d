"""Waits until data written to files is on the disk."""

import os
from pathlib import Path
from typing import IO


def sync(file: IO[bytes]) -> None:
    """Wait until the content of a file is on the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Wait until the names in a directory are on the disk."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
