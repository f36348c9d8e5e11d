"""The example of the page on pipelines works as it stands."""

import re
from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.log import create_topic, read_log

PAGE = (Path(__file__).parents[2] / "docs" / "pipeline.md").read_text()
EXAMPLE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]


def test_example(spark: SparkSession, kafka: str, prefix: str, tmp_path: Path) -> None:
    """The example writes the commands of a directory of CSV files, with what is missing left out."""
    topic = create_topic(kafka, f"{prefix}orders")
    source = tmp_path / "in"
    source.mkdir()
    (source / "1.csv").write_text("publish,7,open,100\ndelta_publish,7,,250\nsow_delete,7,,\n")
    names = {"source": str(source), "kafka": kafka, "checkpoint": str(tmp_path / "checkpoint")}
    assert 'to_sow(commands, "orders", ' in EXAMPLE
    exec(EXAMPLE.replace('to_sow(commands, "orders", ', f'to_sow(commands, "{topic}", '), names)
    query = names["query"]
    query.processAllAvailable()  # type: ignore[attr-defined]
    query.stop()  # type: ignore[attr-defined]
    assert [(record.key, record.value, record.headers) for record in read_log(kafka, topic)] == [
        ("7", b'{"id":7,"status":"open","qty":100}', headers("publish", "1.0")),
        ("7", b'{"id":7,"qty":250}', headers("delta_publish", "1.1")),
        ("7", b'{"id":7}', headers("sow_delete", "1.2")),
    ]


def headers(command: str, sequence: str) -> dict[str, str]:
    """Return the headers of a command of the example."""
    return {"sow.command": command, "sow.publisher": "orders/0", "sow.sequence": sequence}
