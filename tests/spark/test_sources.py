"""Sources: rows whose numbers are the same each time they are read."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from ingest.sources import csv_rows, growing_directory, whole_directory

SCHEMA = "name STRING, size INT"


@pytest.fixture
def directory(tmp_path: Path) -> str:
    """Three files: one with an empty line, one with other line ends, one empty."""
    (tmp_path / "000007.csv").write_text("a,1\n\nb,NA\n")
    (tmp_path / "12-late.csv").write_text("c,3\r\nd,4")
    (tmp_path / "013.csv").write_text("")
    return str(tmp_path)


ROWS = [
    Row(file=7, row=0, name="a", size=1),
    Row(file=7, row=2, name="b", size=None),
    Row(file=12, row=0, name="c", size=3),
    Row(file=12, row=1, name="d", size=4),
]


def rows_of(files: DataFrame) -> list[Row]:
    """Return the rows of CSV files in the order of their numbers."""
    return csv_rows(files, SCHEMA, {"nullValue": "NA"}).orderBy("file", "row").collect()


def test_rows_are_numbered(spark: SparkSession, directory: str) -> None:
    """A row has its file's ordinal and its line; an empty line counts, and is no row."""
    assert rows_of(whole_directory(spark, directory)) == ROWS


def test_numbers_do_not_depend_on_tasks(spark: SparkSession, directory: str) -> None:
    """A row has the same number however the files are shared out among tasks."""
    assert rows_of(whole_directory(spark, directory).repartition(3)) == ROWS


def test_growing_directory(spark: SparkSession, directory: str, tmp_path: Path) -> None:
    """A stream gives the rows the numbers that a batch gives them, also in files that came later."""
    rows: list[Row] = []
    stream = csv_rows(growing_directory(spark, directory), SCHEMA, {"nullValue": "NA"})

    def read_all() -> None:
        writer = stream.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        query = writer.option("checkpointLocation", str(tmp_path / "_checkpoint")).trigger(availableNow=True)
        query.start().awaitTermination()

    read_all()
    assert sorted(rows) == ROWS
    (tmp_path / "000020.csv").write_text("e,5\n")
    read_all()
    assert rows[-1] == Row(file=20, row=0, name="e", size=5)


def test_name_without_a_number(spark: SparkSession, tmp_path: Path) -> None:
    """A file whose name begins with no number fails the batch and says which."""
    (tmp_path / "flights.csv").write_text("a,1\n")
    with pytest.raises(PySparkException, match=r"begins with a number, got flights\.csv"):
        rows_of(whole_directory(spark, str(tmp_path)))
