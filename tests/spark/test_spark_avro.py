"""Spark's own functions for Avro beside `to_sow`, as the page has them, in a Spark of its own that has their jar."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sowline.codecs.codec import codec_of
from sowline.codecs.framing import frame
from sowline.codecs.schema import AVRO, Schema
from sowline.runtime.jars import JarSet, retrieve, spark_connector_jars
from tests.spark.log import create_log, create_topic, read_log

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "spark.md").read_text()
SPARK_AVRO = JarSet("spark-avro_2.13-4.0.0", (("org.apache.spark", "spark-avro_2.13", "4.0.0"),))
FIELDS = [{"name": "id", "type": "string"}, {"name": "qty", "type": ["null", "long"]}]
TRADE = Schema(AVRO, json.dumps({"type": "record", "name": "Trade", "fields": FIELDS}))


@pytest.mark.timeout(300)
def test_avro_functions(kafka: str, prefix: str) -> None:
    """Messages are read as rows, which `to_sow` writes, and Spark itself as messages again."""
    section = PAGE.split("**Spark's own functions.**")[1].split("\n### ")[0]
    (example,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    raw, log = create_topic(kafka, f"{prefix}raw", 1), create_log(kafka, f"{prefix}orders", 1)
    bodies = [b'{"id":"a","qty":1}', b'{"id":"b","qty":null}']
    messages = [frame("confluent", AVRO, 258, codec_of(TRADE).write(body)) for body in bodies]
    producer = Producer({"bootstrap.servers": kafka})
    for message in messages:
        producer.produce(raw, message)
    assert producer.flush(30) == 0
    assert (example.count('"raw"'), example.count('"orders"')) == (1, 2)
    names = f"kafka, schema, schema_id = {kafka!r}, {TRADE.text!r}, 258\n"
    script = names + example.replace('"raw"', repr(raw)).replace('"orders"', repr(log))
    jars = ",".join(map(str, [*spark_connector_jars(), *retrieve(SPARK_AVRO)]))
    environment = os.environ | {"SOWLINE_KAFKA": kafka, "PYSPARK_SUBMIT_ARGS": f"--jars {jars} pyspark-shell"}
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    written = [(record.key, record.value) for record in read_log(kafka, log)]
    assert sorted(written[:2]) == [("a", b'{"id":"a","qty":1}'), ("b", b'{"id":"b"}')]
    assert sorted(written[2:]) == [("a", messages[0]), ("b", messages[1])]
