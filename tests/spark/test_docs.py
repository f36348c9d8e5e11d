"""The pipelines on their page and in the tutorial, and the job on the page about Spark, work as they stand."""

import base64
import json
import re
import subprocess
from operator import itemgetter
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from sowline.cli.columns import table_of
from tests.docs.pages import blocks_of
from tests.docs.reader import Reader, Running
from tests.docs.terminal import COLUMNS
from tests.integration.services import system
from tests.spark.log import create_log, create_topic, read_log
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


def test_pipeline_of_the_tutorial(
    spark: SparkSession, kafka: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that docs/tutorial.md makes becomes the records that it shows."""
    blocks = blocks_of("docs/tutorial.md")
    (pipeline,) = (block.text for block in blocks if "sources:" in block.text)
    (making,) = (block.text for block in blocks if "drops/1.csv" in block.text)
    (shown,) = (block.text for block in blocks if "sowline pipeline run" in block.text)
    topic = create_topic(kafka, f"{prefix}tasks")
    create_topic(kafka, f"{prefix}tasks.dead")
    monkeypatch.setenv("SOWLINE_KAFKA", kafka)
    subprocess.run(["sh", "-c", making.replace("$ ", "")], cwd=tmp_path, check=True)
    # Spark goes by the directory in which its session began.
    for name in ("directory: ", "checkpoint: "):
        pipeline = pipeline.replace(name, f"{name}{tmp_path}/")
    (tmp_path / "pipeline.yaml").write_text(f"log: {topic}\n{pipeline}")
    run_once(tmp_path / "pipeline.yaml")
    found = [json.loads(one.value or b"") for one in read_log(kafka, topic)]
    assert shown.endswith("\n".join(table_of(sorted(found, key=itemgetter("id")), COLUMNS)) + "\n")


def test_debezium_decimals(
    spark: SparkSession, kafka: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pipeline on the page makes numbers of Debezium's decimals, and refuses those that it can't convert."""
    test = "tests/spark/test_docs.py::test_debezium_decimals"
    (pipeline,) = (block.text for block in blocks_of("docs/pipeline.md") if block.elsewhere == test)
    raw, topic = create_topic(kafka, f"{prefix}raw", 1), create_log(kafka, f"{prefix}prices", 1)
    cents = [0, 1, -1, 128, -129, 123456, 10**17 + 1, -(10**17), None, 10**20]
    producer = Producer({"bootstrap.servers": kafka})
    for number, value in enumerate(cents):
        data = None if value is None else value.to_bytes((value.bit_length() + 8) // 8, "big", signed=True)
        price = None if data is None else base64.b64encode(data).decode()
        event = {"before": None, "after": {"id": number, "price": price}, "op": "c"}
        producer.produce(raw, json.dumps(event))
    producer.flush()
    for name, text in {"STATE": str(tmp_path), "SOWLINE_KAFKA": kafka}.items():
        monkeypatch.setenv(name, text)
    file = tmp_path / "prices.yaml"
    file.write_text(f"log: {topic}\n{pipeline.replace('db.public.prices', raw)}")
    run_once(file)
    found = {one.key: (one.value or b"").decode().partition('"price":')[2] for one in read_log(kafka, topic)}
    prices = ["0.00", "0.01", "-0.01", "1.28", "-1.29", "1234.56", f"{10**15}.01", f"-{10**15}.00", None]
    assert found == {str(n): "" if text is None else f"{text}}}" for n, text in enumerate(prices)}
    (letter,) = read_log(kafka, f"{topic}.dead")
    assert letter.headers["sow.message"] == "a price has at most 18 digits"


@pytest.mark.long
@pytest.mark.timeout(420)
def test_cache_of_the_gallery(kafka: str, tmp_path: Path) -> None:
    """The changes of a database, as docs/gallery.md has them, reach subscribers and the cache."""
    page, test = "docs/gallery.md", "tests/spark/test_docs.py::test_cache_of_the_gallery"
    blocks = [block.text for block in blocks_of(page) if block.elsewhere == test]
    (topics,) = (text for text in blocks if text.startswith("# topics.yaml"))
    reading = tmp_path / "reading"
    reading.mkdir()
    with system(kafka, tmp_path, yaml.safe_load(topics)["topics"]) as made:
        services = [made.service(module).start() for module in ("materializer", "query_service")]
        for service in services:
            service.wait_ready()
        Reader(page, Running(made, services[1].url), reading, test).read()


def test_own_job(spark: SparkSession, kafka: str, prefix: str, tmp_path: Path) -> None:
    """The job on the page about Spark writes the records of a Kafka topic."""
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text().split("## Writing: to_sow")[1]
    example = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    raw, topic = create_topic(kafka, f"{prefix}raw", 1), create_log(kafka, f"{prefix}orders")
    producer = Producer({"bootstrap.servers": kafka})
    for body in ('{"id":"a","qty":1}', '{"id":"a","gone":true}'):
        producer.produce(raw, body)
    producer.flush()
    names = {"spark": spark, "kafka": kafka, "checkpoints": str(tmp_path)}
    assert example.count('"raw"') == example.count('topic="orders",') == 1
    script = example.replace('"raw"', f'"{raw}").option("startingOffsets", "earliest"')
    exec(script.replace('topic="orders",', f'topic="{topic}", kafka="{kafka}",'), names)
    query = names["writing"]
    query.processAllAvailable()  # type: ignore[attr-defined]
    query.stop()  # type: ignore[attr-defined]
    assert [(one.value, one.headers) for one in read_log(kafka, topic)] == [
        (b'{"id":"a","qty":1}', {"sow.publisher": "trades/0", "sow.sequence": "0"}),
        (b'{"id":"a"}', {"sow.command": "sow_delete", "sow.publisher": "trades/0", "sow.sequence": "1"}),
    ]
