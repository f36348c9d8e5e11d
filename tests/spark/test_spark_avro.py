"""Spark's own functions for Avro beside `to_sow`, as the page has them; the session of the tests has their jar."""

import json
import re
from pathlib import Path

import pytest
from confluent_kafka import Producer

from sowline.codecs.codec import codec_of
from sowline.codecs.framing import frame
from sowline.codecs.schema import AVRO, Schema
from tests.spark.log import create_log, create_topic, read_log

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "spark.md").read_text()
FIELDS = [{"name": "id", "type": "string"}, {"name": "qty", "type": ["null", "long"]}]
TRADE = Schema(AVRO, json.dumps({"type": "record", "name": "Trade", "fields": FIELDS}))


@pytest.mark.usefixtures("spark")
def test_avro_functions(kafka: str, prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
    script = example.replace('"raw"', repr(raw)).replace('"orders"', repr(log))
    monkeypatch.setenv("SOWLINE_KAFKA", kafka)
    exec(script, {"kafka": kafka, "schema": TRADE.text, "schema_id": 258})
    written = [(record.key, record.value) for record in read_log(kafka, log)]
    assert sorted(written[:2]) == [("a", b'{"id":"a","qty":1}'), ("b", b'{"id":"b"}')]
    assert sorted(written[2:]) == [("a", messages[0]), ("b", messages[1])]
