"""`pipeline run --once --wait` ends when queries see the rows, and reports what became of them."""

import json
import uuid
from pathlib import Path

import pytest

from tests.integration.services import http_text, system
from tests.spark.pipelines import pipeline_process


@pytest.mark.long
def test_a_run_that_waits(kafka: str, tmp_path: Path) -> None:
    """Rows are written, refused by a check, refused by the materializer, or applied: each is counted."""
    name = f"t{uuid.uuid4().hex[:12]}"
    topics = [{"name": name, "key": "/id", "partitions": 2, "record_bytes_max": 100}]
    with system(kafka, tmp_path, topics) as made:
        materializer = made.service("materializer").start()
        query = made.service("query_service").start()
        for service in (materializer, query):
            service.wait_ready()
        rows = tmp_path / "in"
        rows.mkdir()
        lines = [{"id": number, "text": "x"} for number in range(50)]
        lines += [{"id": 50, "text": "y" * 200}, {"id": 51, "text": None}]
        (rows / "a.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
        file = tmp_path / "pipeline.yaml"
        file.write_text(
            f"name: {name}-load\ntopic: {name}\nkey: id\ncheckpoint: {tmp_path}/checkpoint\n"
            f"sources:\n  lines: {{directory: {rows}, format: json, schema: 'id INT, text STRING'}}\n"
            "checks:\n  - {expect: text IS NOT NULL, message: no text}\n"
        )
        environment = {"SOWLINE_CONFIG": str(made.config), "SOWLINE_URL": query.url}
        with pipeline_process(file, kafka, environment, "--once", "--wait") as process:
            output, _ = process.communicate(timeout=300)
            seen = json.loads(http_text(f"{query.url}/v1/topics"))["topics"][0]["records"]
        outcome = json.loads(output.splitlines()[-1])
    assert process.returncode == 0
    assert seen == 50
    assert outcome == {
        "rows": 52,
        "refused": 1,
        "log": name,
        "dead_letters": f"{name}.dead",
        "applied": 50,
        "dead": 1,
        "reasons": {"too large": 1},
    }
