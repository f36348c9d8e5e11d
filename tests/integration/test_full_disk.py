"""A disk that fills up under a worker: it says so, stops there, and goes on by itself once there is room."""

import asyncio
import random
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.changes import check_chain, read_changes
from tests.integration.load import check_sow, model_of
from tests.integration.services import http_refusal, system, wait_for

BODY_BYTES = 20_000
RECORDS = 400
"""Of so many bytes: more than fits."""


@contextmanager
def small_disk(path: Path, mib: int) -> Iterator[None]:
    """Mount a disk in memory; skips the test where that is not allowed."""
    path.mkdir()
    made = subprocess.run(
        mount("-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", path), capture_output=True, text=True
    )
    if made.returncode != 0:
        pytest.skip(f"a disk of its own can't be mounted here: {made.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", path], check=True)


def mount(*options: object) -> list[str]:
    """Return the command that mounts."""
    return ["mount", *map(str, options)]


def test_a_disk_that_fills_up(kafka: str, tmp_path: Path) -> None:
    """The worker stops before it loses anything, its health names the disk, and room is all it takes to go on."""
    name = f"t{uuid.uuid4().hex[:12]}-full"
    topics = [{"name": name, "key": ["/id"], "partitions": 2}]
    disk = tmp_path / "disk"
    with small_disk(disk, 6), system(kafka, tmp_path, topics) as made:
        worker = made.service("materializer", data_dir=disk / "sow").start().wait_ready()
        query = made.service("query_service").start()
        dice = random.Random(7)
        bodies = [
            {"id": number % 300, "qty": number, "text": dice.randbytes(BODY_BYTES // 2).hex()}
            for number in range(RECORDS)
        ]
        made.write(name, *bodies)
        refusal = wait_for(lambda: http_refusal(f"{worker.url}/readyz"), "the disk to be full")
        assert f"the disk of {disk}/sow is full" in refusal
        assert "No space left on device" in refusal
        assert worker.metric("sowline_disk_full") == 1
        assert '"event": "disk full"' in worker.log
        made.write(name, {"id": 1, "qty": -1})
        subprocess.run(mount("-o", "remount,size=200m", disk), check=True)
        worker.wait_ready()
        assert worker.metric("sowline_disk_full") == 0
        query.wait_ready()
        made.wait_settled(query.url, name)
        model = model_of(made, name)
        asyncio.run(check_sow(model, query.url, name))
        changes, _ = read_changes(made, name)
        check_chain(changes, model)
        assert "damaged" not in worker.log
        assert "loaded from the changes" not in worker.log
        assert worker.stop() == 0
