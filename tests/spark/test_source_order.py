"""The rows of a key are written in their order, whether `to_sow` has to bring them together or finds them so."""

import uuid
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from sowline.spark import to_sow
from sowline.spark.source import source_of_file
from sowline.spark.source_files import source_files
from tests.spark.jobs import jobs_of
from tests.spark.log import create_log, read_log

KEYS, ROWS, FILES = 30, 600, 3


def rows_of(spark: SparkSession) -> DataFrame:
    """Return rows in which each key comes many times."""
    return spark.range(ROWS).selectExpr(f"id % {KEYS} AS id", "id AS n")


def stored(rows: DataFrame, directory: Path, *, apart: bool, type: str = "bigint") -> DataFrame:
    """Write rows to files and read them; in files that are apart, each key is in one of them."""
    rows = rows.withColumn("id", F.col("id").cast(type))
    spread = rows.repartitionByRange(FILES, "id") if apart else rows.repartition(FILES)
    spread.write.parquet(f"{directory}/in")
    read = rows.sparkSession.read.parquet(f"{directory}/in")
    assert len(read.inputFiles()) == FILES
    return read.select("*", source_of_file())


def by_file_and_row(rows: DataFrame) -> dict[str, list[int]]:
    """Return `n` of each key's rows in the order of their source."""
    found: dict[str, list[int]] = defaultdict(list)
    for row in (
        rows.selectExpr("*", "_source.file AS file", "_source.number AS row").orderBy("file", "row").collect()
    ):
        found[str(row.id)].append(row.n)
    return found


@pytest.mark.parametrize("type", ["bigint", "int", "string"])
@pytest.mark.parametrize(("apart", "jobs"), [(True, 1), (False, 2)])
def test_order(
    spark: SparkSession, kafka: str, prefix: str, tmp_path: Path, apart: bool, jobs: int, type: str
) -> None:
    """Rows are shuffled only where a key may be in two files; in both cases a key's rows keep their order."""
    rows = stored(rows_of(spark), tmp_path, apart=apart, type=type)
    topic = create_log(kafka, f"{prefix}orders")
    assert jobs_of(spark, lambda: to_sow(rows, topic=topic, key="id", publisher="shop", kafka=kafka)) == jobs
    written: dict[str, list[int]] = defaultdict(list)
    numbers: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    for record in read_log(kafka, topic):
        assert record.value is not None
        written[record.key].append(int(record.value.rpartition(b":")[2].rstrip(b"}")))
        numbers[record.key].append(record.sequence)
    assert written == by_file_and_row(rows)
    assert all(one == sorted(one) for one in numbers.values())


@pytest.mark.parametrize("apart", [True, False])
def test_dead_letters(spark: SparkSession, kafka: str, prefix: str, tmp_path: Path, apart: bool) -> None:
    """They name the file and the row, and are the same when the batch is written again."""
    rows = stored(
        rows_of(spark).selectExpr("*", "IF(n = 17, double('NaN'), 1.5D) AS x"), tmp_path, apart=apart
    )
    topic = create_log(kafka, f"{prefix}orders")
    for _ in range(2):
        to_sow(rows, topic=topic, key="id", publisher="shop", kafka=kafka)
    (bad,) = rows.where("n = 17").select("_source.file", "_source.number").collect()
    name = f"shop/0@{source_files(rows).urls.index(bad.file)}.{bad.number}"
    assert [one.key for one in read_log(kafka, f"{topic}.dead")] == [name] * 2
    numbers = [(one.key, one.sequence) for one in read_log(kafka, topic)]
    assert len(numbers) == 2 * (ROWS - 1)
    assert len(set(numbers)) == ROWS - 1


def test_expressions_of_the_caller(spark: SparkSession, kafka: str, prefix: str, tmp_path: Path) -> None:
    """One that moves rows to other tasks does so before they are put in order."""
    rows = stored(rows_of(spark), tmp_path, apart=True)
    topic = create_log(kafka, f"{prefix}orders")
    latest = F.row_number().over(Window.partitionBy(F.col("n") % 7).orderBy(F.desc("n")))
    to_sow(
        rows,
        topic=topic,
        key="id",
        command=F.when(latest > 0, "delta_publish"),
        publisher="shop",
        kafka=kafka,
    )
    written: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    for record in read_log(kafka, topic):
        written[record.key].append(record.sequence)
    assert sum(map(len, written.values())) == ROWS
    assert all(one == sorted(one) for one in written.values())


def moved(rows: DataFrame) -> DataFrame:
    """Return rows after a window, which brings them to other tasks; their files can be told without it."""
    return rows.withColumn("place", F.row_number().over(Window.partitionBy("n").orderBy("n")))


@pytest.mark.parametrize(
    ("made", "key"),
    [
        (lambda rows: rows.where("n > 5"), "id"),
        (lambda rows: rows.repartition(2), "id"),
        (lambda rows: rows.orderBy(F.desc("n")), "id"),
        (lambda rows: rows.union(rows), "id"),
        (moved, "id"),
        (lambda rows: rows.withColumn("id", F.expr("id % 10")), "id"),
        (lambda rows: rows.withColumn("id", F.col("id").cast("tinyint")), "id"),
        (lambda rows: rows, "id % 10"),
        (lambda rows: rows, "n"),
    ],
)
def test_rows_that_may_be_anywhere(
    spark: SparkSession, tmp_path: Path, made: Callable[[DataFrame], DataFrame], key: str
) -> None:
    """Whatever is done to the rows or to their key beyond reading them, they count as moved."""
    rows = stored(rows_of(spark), tmp_path, apart=True)
    assert source_files(rows, F.col("id")).are_apart
    assert source_files(
        rows.select("*", F.lit(1).alias("one")).withColumnRenamed("id", "key"), F.col("key")
    ).are_apart
    assert not source_files(made(rows), F.expr(key)).are_apart


def test_ranges_of_keys(spark: SparkSession, tmp_path: Path) -> None:
    """They must not touch, and a file must have all of its values in its range."""

    def are_apart(*files: str) -> bool:
        directory = tmp_path / uuid.uuid4().hex
        for number, values in enumerate(files):
            rows = spark.sql(f"SELECT id FROM VALUES {values} AS v(id)").coalesce(1)
            rows.write.parquet(f"{directory}/{number}")
        read = spark.read.option("recursiveFileLookup", "true").parquet(str(directory))
        return source_files(read.select("*", source_of_file()), F.col("id")).are_apart

    assert are_apart("(3), (1)", "(4), (9)")
    assert not are_apart("(3), (1)", "(3), (9)")
    assert not are_apart("(1), (9)", "(4)")
    assert not are_apart("(3), (1)", "(4), (NULL)")
    assert are_apart("(-3), (-1)", "(4)")
    assert are_apart("('a')", "('é'), ('f')", "('z')") is False
    assert are_apart("('a'), ('f')", "('z'), ('é')")
    assert not are_apart("(true)", "(false)")
    assert not are_apart("(1.5BD)", "(2.5BD)")


def test_a_file_that_several_tasks_read(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of one key may be in two of its parts."""
    rows = stored(rows_of(spark), tmp_path, apart=True)
    assert source_files(rows, F.col("id")).are_apart
    name = "spark.sql.files.maxPartitionBytes"
    before = spark.conf.get(name)
    spark.conf.set(name, "500")
    try:
        again = spark.read.parquet(f"{tmp_path}/in").select("*", source_of_file())
        assert again.rdd.getNumPartitions() > FILES
        assert not source_files(again, F.col("id")).are_apart
    finally:
        spark.conf.set(name, str(before))


def test_narrowed_keys(spark: SparkSession, tmp_path: Path) -> None:
    """Different values of files can be one key where Spark reads them as a narrower type."""
    for number, value in enumerate((1, 257)):
        spark.sql(f"SELECT CAST({value} AS INT) AS id").write.parquet(f"{tmp_path}/in/{number}")
    read = spark.read.option("recursiveFileLookup", "true").schema("id TINYINT").parquet(f"{tmp_path}/in")
    assert not source_files(read.select("*", source_of_file()), F.col("id")).are_apart


def test_files_that_a_cluster_may_divide_otherwise(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a cluster more cores may register before rows are written, unless a setting takes their place."""
    rows = stored(rows_of(spark), tmp_path, apart=True)
    assert source_files(rows, F.col("id")).are_apart
    monkeypatch.setattr(spark.sparkContext, "master", "spark://cluster:7077")
    assert not source_files(rows, F.col("id")).are_apart
    spark.conf.set("spark.sql.files.minPartitionNum", "2")
    try:
        assert source_files(rows, F.col("id")).are_apart
    finally:
        spark.conf.unset("spark.sql.files.minPartitionNum")


def test_a_frame_with_names_like_ours(spark: SparkSession, kafka: str, prefix: str, tmp_path: Path) -> None:
    """Columns that begin with an underscore are the caller's, and not in the body."""
    more = {name: F.lit(1) for name in ("_partition", "_number", "_file", "_ordinal", "_url")}
    rows = stored(rows_of(spark), tmp_path, apart=False).withColumns(more)
    topic = create_log(kafka, f"{prefix}orders")
    to_sow(rows, topic=topic, key="id", publisher="shop", kafka=kafka)
    assert {record.key for record in read_log(kafka, topic)} == {str(row.id) for row in rows.collect()}
