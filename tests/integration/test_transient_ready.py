"""When a transient topic is ready: once its previous records are void, and not sooner."""

import uuid
from pathlib import Path

import orjson

from tests.integration.services import Service, http_refusal, http_status, http_text, post_commands, system
from tests.waiting import wait_for


def records(query: Service, name: str) -> list[str]:
    """Return the lines of a query."""
    return http_text(f"{query.url}/v1/topics/{name}/sow", b"{}").splitlines()


def waits(query: Service) -> bool:
    """Whether the query service is not ready, and says that it waits for a materializer."""
    return http_status(f"{query.url}/readyz") == 503 and "materializer" in http_refusal(f"{query.url}/readyz")


def test_a_query_service_waits_for_a_topic_that_begins_again(kafka: str, tmp_path: Path) -> None:
    """Alone it has nothing to serve; with a materializer, what was written since that began, and nothing else."""
    name = f"t{uuid.uuid4().hex[:12]}-brief"
    topic = {"name": name, "key": "/id", "partitions": 2, "durability": "transient", "recovery_point": "now"}
    with system(kafka, tmp_path, [topic]) as made:
        materializer, query = made.service("materializer"), made.service("query_service")
        materializer.start().wait_ready()
        made.write(name, *({"id": number} for number in range(10)))
        query.start().wait_ready()
        wait_for(lambda: len(records(query, name)) == 10, "the records to be there")
        query.stop()
        materializer.stop()
        query.start()
        wait_for(lambda: waits(query), "the query service to say what it waits for")
        (served,) = orjson.loads(http_text(f"{query.url}/v1/topics"))["topics"]
        assert served["loading"]
        refused = post_commands(query.url, name, "sow", b"{}", "application/json")
        assert (refused["status"], refused["reason"]) == (503, "not ready")
        materializer.start().wait_ready()
        query.wait_ready()
        assert records(query, name) == []
        made.write(name, {"id": 1})
        wait_for(lambda: len(records(query, name)) == 1, "the record to be there")
        query.stop()
        query.start().wait_ready()
        assert len(records(query, name)) == 1
