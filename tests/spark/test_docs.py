"""The pipeline on the page about pipelines works as it stands."""

import json
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.log import create_topic, read_log
from tests.spark.pipelines import run_once

PAGE = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text()
EXAMPLE = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0]


def test_example(
    spark: SparkSession, kafka: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes the commands of CSV files, and what fails the check as a dead letter."""
    topic = create_topic(kafka, f"{prefix}orders")
    create_topic(kafka, f"{prefix}orders.dead")
    file = tmp_path / "orders.yaml"
    file.write_text(f"log: {topic}\n{EXAMPLE}")
    drops = tmp_path / "drops"
    drops.mkdir()
    (drops / "1.csv").write_text("id,status,qty,price\n7,open,2,1.5\n8,open,0,1\n7,gone,1,1\n")
    for name, value in {"STATE": tmp_path, "DROPS": drops, "SOWLINE_KAFKA": kafka}.items():
        monkeypatch.setenv(name, str(value))
    run_once(file)
    found = [
        (one.headers.get("sow.command"), one.key, json.loads(one.value or b""))
        for one in read_log(kafka, topic)
    ]
    assert found == [
        (None, "7", {"id": 7, "status": "open", "qty": 2, "price": 1.5, "total": 3.0}),
        ("sow_delete", "7", {"id": 7, "status": "gone", "qty": 1, "price": 1.0, "total": 1.0}),
    ]
    (letter,) = read_log(kafka, f"{topic}.dead")
    assert (letter.key, letter.value) == ("orders/drops/0@0.2", b"8,open,0,1")
    assert letter.headers["sow.message"] == "a quantity is above zero"
