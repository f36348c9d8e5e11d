"""A view that joins a topic larger than the memory for it: computed by real services, with the rest on disk."""

import uuid
from pathlib import Path
from typing import Any

from sowline.client.client import Client
from sowline.model.limits import MIB
from sowline_views.spill_store import DIRECTORY
from tests.integration.services import system
from tests.waiting import wait_for

CUSTOMERS = 20_000
ORDERS = 500
NOTE = "x" * 500


def test_a_joined_topic_larger_than_its_memory(kafka: str, tmp_path: Path) -> None:
    """Its records match as they change, also after a kill; the service leaves no files when it stops."""
    name = f"t{uuid.uuid4().hex[:12]}-orders"
    customers, view = f"{name}-customers", f"{name}-regions"
    topics: list[dict[str, Any]] = [
        {"name": name, "key": "/id", "partitions": 2},
        {"name": customers, "key": "/id"},
    ]
    join = {"topic": customers, "on": "/customer = /id", "as": "c"}
    grouped = {"grouping": ["/c/region"], "projection": ["COUNT(1) AS /orders"]}
    with system(
        kafka, tmp_path, topics, views=[{"name": view, "from": name, "join": [join], **grouped}]
    ) as made:
        query, materializer = made.service("query_service").start(), made.service("materializer").start()
        views = made.service("views", join_bytes_max=16 * MIB).start()
        for service in (query, materializer, views):
            service.wait_ready()
        publisher = made.publisher()

        def write_customers(numbers: range, region: str) -> None:
            for number in numbers:
                publisher.publish(customers, {"id": number, "region": region, "note": NOTE})
            publisher.flush()

        def regions() -> dict[str, int]:
            found = [message.data for message in client.sow(view) if message.command == "sow"]
            return {row["c"]["region"]: row["orders"] for row in found}

        with Client(query.url) as client:
            for number in range(ORDERS):
                publisher.publish(name, {"id": number, "customer": number * (CUSTOMERS // ORDERS)})
            write_customers(range(CUSTOMERS), "eu")
            wait_for(lambda: regions() == {"eu": ORDERS}, "all customers")
            write_customers(range(0, CUSTOMERS, CUSTOMERS // 10), "us")
            wait_for(lambda: regions() == {"eu": ORDERS - 10, "us": 10}, "changed customers")
            directory = made.directory / "sow" / DIRECTORY / "process-0"
            assert list(directory.glob(f"{view}-*/db"))
            views.kill()
            write_customers(range(0, CUSTOMERS, CUSTOMERS // 5), "apac")
            views.start().wait_ready()
            wait_for(lambda: regions() == {"eu": ORDERS - 10, "us": 5, "apac": 5}, "a new start")
            assert views.stop() == 0
            assert not directory.exists()
