"""Changes go into a lake as the page says, in a Spark of its own: a session has its extensions from the start."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sowline.runtime.jars import JarSet, retrieve, spark_connector_jars
from tests.spark.changes import Story, Written

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "spark.md").read_text()
LAKE = "\n".join(
    re.findall(r"```python\n(.*?)```", PAGE.split("## Into a lake")[1].split("\n## ")[0], re.DOTALL)
)
ICEBERG = JarSet(
    "iceberg-spark-runtime-4.0_2.13-1.10.0",
    (("org.apache.iceberg", "iceberg-spark-runtime-4.0_2.13", "1.10.0"),),
)
WRITE = """
def write_old():
    from confluent_kafka import Producer

    producer = Producer({{"bootstrap.servers": {kafka!r}}})
    producer.produce({topic!r}, {old.body!r}, {old.sow_key!r}, headers={headers!r})
    producer.flush()

"""
REPORT = """
appending.awaitTermination()
mirroring.awaitTermination()
write_old()
mirror.trigger(availableNow=True).start().awaitTermination()
rows = spark.sql("SELECT op, after.qty FROM lake.shop.order_history ORDER BY time").collect()
print("history", [tuple(row) for row in rows])
rows = spark.sql("SELECT record.id, record.qty FROM lake.shop.orders WHERE record IS NOT NULL").collect()
print("mirror", [tuple(row) for row in rows])
"""


@pytest.mark.long
@pytest.mark.timeout(300)
def test_iceberg(kafka: str, prefix: str, tmp_path: Path) -> None:
    """A table has the history, another one the records: also where an old change comes after its record is gone."""
    written = Written(kafka, f"{prefix}orders")
    story = Story()
    old = story.change(0, "a", b'{"id":"a","status":"open","qty":1}')
    story.change(1, "b", b'{"id":"b","status":"open","qty":1}')
    story.change(2, "b", b'{"id":"b","status":"late","qty":2}')
    story.change(3, "a", None)
    written.write(*story.events)
    assert '"orders"' in LAKE
    begin = f"warehouse, checkpoints = {str(tmp_path / 'lake')!r}, {str(tmp_path / 'checkpoints')!r}\n"
    begin += WRITE.format(kafka=kafka, topic=f"{written.log}.changes", old=old, headers=old.headers())
    script = begin + LAKE.replace('"orders"', repr(written.log)) + REPORT
    jars = ",".join(map(str, [*spark_connector_jars(), *retrieve(ICEBERG)]))
    environment = os.environ | {"SOWLINE_KAFKA": kafka, "PYSPARK_SUBMIT_ARGS": f"--jars {jars} pyspark-shell"}
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    history, mirror = (line for line in ran.stdout.splitlines() if line.startswith(("history", "mirror")))
    assert mirror == "mirror [('b', 2)]"
    assert history == "history [('publish', 1), ('publish', 1), ('publish', 2), ('delete', None)]"
