"""The cost of topics while nothing happens: CPU, memory and descriptors of a materializer and a query service.

TOPICS topics of PARTITIONS partitions each, all of them empty. The services first open or load all of them; what they
take for that is not counted.
"""

import os
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from bench.broker import broker
from bench.service import Running, running, until
from bench.table import table
from sowline.model.limits import MIB

TOPICS = int(os.environ.get("TOPICS", "200"))
PARTITIONS = 8
SECONDS = 30.0
"""How long each service is watched."""

SETTLE_SECONDS = 15.0
"""How long a service may continue with the work that its start has left."""


def run(records: int, runs: int) -> str:
    """Start the services over many topics, and measure them while nothing happens."""
    with broker() as bootstrap, tempfile.TemporaryDirectory() as directory:
        config = Path(directory) / "topics.yaml"
        topics = [f"  - {{name: idle-{n}, key: /id, partitions: {PARTITIONS}}}" for n in range(TOPICS)]
        config.write_text("topics:\n" + "\n".join(topics))
        environment = {
            "SOWLINE_KAFKA": bootstrap,
            "SOWLINE_CONFIG": str(config),
            "SOWLINE_DATA_DIR": directory,
            "SOWLINE_GROUP": f"idle-{time.monotonic_ns()}",
        }
        with running("materializer", environment) as materializer:
            until(lambda: materializer.metric("sowline_partitions") == TOPICS * PARTITIONS)
            with running("query_service", environment) as query:
                until(query.is_ready)
                time.sleep(SETTLE_SECONDS)
                rows = [
                    [name, *measured(service)]
                    for name, service in (("materializer", materializer), ("query service", query))
                ]
    size = f"{TOPICS} topics × {PARTITIONS} partitions"
    return table([size, "share of a core", "peak memory", "descriptors", "threads by CPU time"], rows)


def measured(service: Running) -> list[str]:
    """Watch a service for a while."""
    before, threads = service.usage().cpu_seconds, thread_seconds(service.pid)
    time.sleep(SECONDS)
    taken = (service.usage().cpu_seconds - before) / SECONDS
    after = thread_seconds(service.pid)
    busiest = sorted(((after[name] - threads.get(name, 0.0), name) for name in after), reverse=True)[:3]
    descriptors = len(list(Path(f"/proc/{service.pid}/fd").iterdir()))
    by_thread = ", ".join(f"{name} {seconds / SECONDS:.1%}" for seconds, name in busiest)
    memory = service.usage().rss_bytes_max
    return [f"{taken:.1%}", f"{memory / MIB:,.0f} MiB", f"{descriptors:,}", by_thread]


def thread_seconds(pid: int) -> dict[str, float]:
    """Return the CPU seconds of a process by the names of its threads."""
    found = defaultdict[str, float](float)
    for task in Path(f"/proc/{pid}/task").iterdir():
        name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        fields = rest.split()
        found[name] += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found
