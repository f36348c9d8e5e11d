"""A first `sowline up` with a transient topic, whose young broker does not know its coordinators yet.

`make test-all` starts it 20 times (`STARTS`), because what a young broker answers depends on the moment.
"""

import os
import signal
from pathlib import Path

import pytest

from tests.integration.command_line import Up

STARTS = int(os.environ.get("STARTS", "1"))

TOPICS = """topics:
- {name: brief, key: /id, partitions: 2, durability: transient, recovery_point: now}
views:
- {name: by_region, from: brief, grouping: [/region], projection: [COUNT(1) AS /orders]}
fanouts:
- {name: brief, topic: brief}
"""


@pytest.mark.parametrize("start", range(STARTS))
def test_a_first_start_with_a_transient_topic(start: int, tmp_path: Path) -> None:
    """It is ready, without a restart of any of its services."""
    up = Up(tmp_path, "brief", topics=TOPICS)
    try:
        up.wait_ready()
        os.killpg(up.process.pid, signal.SIGINT)
        assert up.wait() == 0
        assert "restarting" not in up.log.read_text()
    finally:
        up.close()
