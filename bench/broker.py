"""The Kafka that a benchmark runs against: the one in SOWLINE_KAFKA, or a local one for the run."""

import gc
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sowline.runtime.local_kafka import LocalKafka


@contextmanager
def broker() -> Iterator[str]:
    """Lend a bootstrap address."""
    if given := os.environ.get("SOWLINE_KAFKA"):
        yield given
        return
    with tempfile.TemporaryDirectory() as directory, LocalKafka(Path(directory)) as local:
        yield local.bootstrap
        gc.collect()  # clients that are no longer referenced, before they miss their broker
