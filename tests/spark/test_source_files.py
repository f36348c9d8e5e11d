"""The files of a batch: those that its rows come from."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sowline.spark.commands import command_rows
from sowline.spark.source import source_of_file
from sowline.spark.source_files import READ_FOOTERS_MAX, source_files
from tests.spark.jobs import jobs_of


@pytest.fixture
def rows(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """The rows of two files, one in each, and a file without rows."""
    for number, name in enumerate(("a a", "b", "c")):
        some = spark.range(number, number + 1).where(F.col("id") < 2).coalesce(1)
        some.write.parquet(f"{tmp_path}/in/{name}")
    read = spark.read.option("recursiveFileLookup", "true").parquet(f"{tmp_path}/in")
    return read.select("*", source_of_file())


def directories(rows: DataFrame) -> list[str]:
    """Return the directories of the files of rows; the rows say the same."""
    files = source_files(rows).urls
    seen = {file for (file,) in rows.select("_source.file").distinct().collect() if file is not None}
    assert files == sorted(seen)
    return [file.split("/")[-2] for file in files]


@pytest.mark.parametrize(
    ("made", "jobs"),
    [
        (lambda rows: rows, 0),
        (lambda rows: command_rows(rows, "id"), 0),
        (lambda rows: rows.where("id = 1"), 2),
        (lambda rows: rows.select("id", source_of_file(F.col("id"))), 2),
    ],
)
def test_names_of_whole_files_are_not_compared(
    spark: SparkSession, rows: DataFrame, made: Callable[[DataFrame], DataFrame], jobs: int
) -> None:
    """Few files are opened for their footers. Otherwise a second job brings the equal names of all rows together."""
    assert jobs_of(spark, lambda: source_files(made(rows))) == jobs


def test_many_files(spark: SparkSession, tmp_path: Path) -> None:
    """Those of their first rows are found in one job, and are the same."""
    # Round robin, so that each file has a row; and one has none.
    spark.range(60).repartition(READ_FOOTERS_MAX).write.parquet(f"{tmp_path}/in")
    spark.range(1).where("id > 0").write.mode("append").parquet(f"{tmp_path}/in")
    rows = spark.read.parquet(f"{tmp_path}/in").select("id", source_of_file())
    assert len(rows.inputFiles()) > READ_FOOTERS_MAX
    assert jobs_of(spark, lambda: source_files(rows)) == 1
    seen = {file for (file,) in rows.select("_source.file").distinct().collect()}
    assert source_files(rows).urls == sorted(seen)


def test_files_have_rows(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    """What rows are joined with has no part in it, and what makes `_source` is not guessed."""
    spark.range(3).write.parquet(f"{tmp_path}/other")
    other = spark.read.parquet(f"{tmp_path}/other")
    assert directories(rows) == ["a%20a", "b"]
    assert directories(command_rows(rows, "id")) == ["a%20a", "b"]
    assert directories(rows.where("id = 1")) == ["b"]
    assert directories(rows.join(other, "id")) == ["a%20a", "b"]
    assert directories(rows.union(rows.where("id = 5"))) == ["a%20a", "b"]
    rows.select("id", F.col("_source").alias("_metadata")).write.parquet(f"{tmp_path}/staged")
    staged = spark.read.parquet(f"{tmp_path}/staged")
    assert directories(staged.select("id", F.col("_metadata").alias("_source"))) == ["a%20a", "b"]
    assert directories(rows.select("id", source_of_file(F.col("id")))) == ["a%20a", "b"]
    fields = "named_struct('partition', '0', 'file', CAST(NULL AS STRING), 'number', id) AS _source"
    assert directories(rows.selectExpr("id", fields)) == []
