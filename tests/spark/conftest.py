"""One Spark session for all tests of the pipeline, and the log and the file of one that they declare."""

from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from sowline.runtime.jars import JarSet, retrieve, spark_connector_jars
from sowline.spark.session import spark_session
from tests.spark.log import create_log
from tests.spark.pipelines import Write

Collect = Callable[[DataFrame], list[Row]]
"""Runs a stream over what there is, and returns its rows."""

HERE = Path(__file__).parent
SPARK_AVRO = JarSet("spark-avro_2.13-4.0.0", (("org.apache.spark", "spark-avro_2.13", "4.0.0"),))
# Py4J leaves its sockets to the garbage collector, which may come to them in any test of this directory.
PY4J_SOCKETS = (
    "ignore:.*socket:pytest.PytestUnraisableExceptionWarning",
    "ignore:unclosed <socket:ResourceWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the sockets that Py4J leaves open pass, in the tests of this directory."""
    for item in items:
        if item.path.is_relative_to(HERE):
            for rule in PY4J_SOCKETS:
                item.add_marker(pytest.mark.filterwarnings(rule))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that a local pipeline gets, with the jar of Spark's own functions for Avro."""
    jars = [*spark_connector_jars(), *retrieve(SPARK_AVRO)]
    session = spark_session("tests", {"spark.jars": ",".join(map(str, jars))})
    yield session
    session.stop()


@pytest.fixture
def collect(tmp_path: Path) -> Collect:
    """Return the rows that a stream has by now, in the order of their positions."""

    def rows_of(frame: DataFrame) -> list[Row]:
        rows: list[Row] = []
        writer = frame.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        writer = writer.option(
            "checkpointLocation", str(tmp_path / f"checkpoint{len(list(tmp_path.iterdir()))}")
        )
        writer.trigger(availableNow=True).start().awaitTermination()
        return sorted(rows, key=lambda row: row["position"])

    return rows_of


@pytest.fixture
def log(kafka: str, prefix: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The log that pipelines write, and its dead letters."""
    monkeypatch.setenv("SOWLINE_KAFKA", kafka)
    return create_log(kafka, f"{prefix}orders", partitions=1)


@pytest.fixture
def write(log: str, tmp_path: Path) -> Write:
    """Writes the file of a pipeline into the log, whose sources stand in a directory of their own."""

    def write(text: str) -> Path:
        file = tmp_path / "pipeline.yaml"
        head = f"name: shop\ntopic: orders\nlog: {log}\ncheckpoint: {tmp_path}/checkpoint\n"
        file.write_text(head + dedent(text).replace("INPUT", f"{tmp_path}/in"))
        return file

    (tmp_path / "in").mkdir()
    return write
