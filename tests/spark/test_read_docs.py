"""The reading examples of the page on Spark work as they stand."""

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.changes import Story, Written
from tests.unit.sowline.spark.test_registry import registry as registry  # noqa: PLC0414 - a fixture

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.split("## Into a lake")[0], re.DOTALL)
TIME, BOOKMARK = '"2026-11-20T17:30:00Z"', '"orders:0@1187,1@1203"'


@pytest.mark.long
def test_examples(
    spark: SparkSession, kafka: str, prefix: str, tmp_path: Path, registry: str, monkeypatch: Any
) -> None:
    """Records are exported, the past is read, a stream holds each change once, and a registry tells the schema."""
    monkeypatch.setenv("SOWLINE_KAFKA", kafka)
    written = Written(kafka, f"{prefix}orders", partitions=2)
    written.append(3)
    story = Story()
    cut = story.change(0, "a", b'{"id":"a","status":"open","qty":1}')
    story.change(1, "b", b'{"id":"b","status":"open","qty":200}')
    late = story.change(2, "a", b'{"id":"a","status":"late","qty":1}')
    other = Story()
    first = other.change(4, "c", b'{"id":"c","status":"late","qty":3}')
    written.write(*story.events, late)
    written.write(*other.events, partition=1)
    names: dict[str, Any] = {"target": str(tmp_path / "orders"), "registry": registry}
    script = "\n".join(EXAMPLES)
    assert script.count(TIME) == script.count(BOOKMARK) == 1
    bookmark = written.at(cut.position, first.position)
    script = script.replace(BOOKMARK, repr(bookmark)).replace(TIME, f'"{_text_of_epoch()}"')
    exec(script.replace('"orders"', repr(written.log)), names)
    exported = spark.read.parquet(str(tmp_path / "orders"))
    assert _orders(exported) == [("a", "late", 1), ("b", "open", 200), ("c", "late", 3)]
    assert names["closing"].collect() == []
    assert _orders(names["snapshot"]) == [("a", "open", 1), ("c", "late", 3)]
    assert sorted(row.id for row in names["typed"].collect()) == ["a", "b", "c"]
    rows: list[Any] = []
    stream = names["once"].select("after.id", "changed").writeStream
    stream = stream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
    stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()
    every = ["id", "status", "qty"]
    assert sorted(tuple(row) for row in rows) == [
        ("a", every),
        ("a", ["status"]),
        ("b", every),
        ("c", every),
    ]
    assert names["late"].isStreaming


def _orders(frame: Any) -> list[tuple[str, str, int]]:
    rows = frame.select("id", "status", "qty").collect()
    return sorted((row.id, row.status, row.qty) for row in rows)


def _text_of_epoch() -> str:
    """Return a time before everything."""
    return "2000-01-01T00:00:00Z"
