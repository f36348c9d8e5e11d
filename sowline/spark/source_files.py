"""The files that the rows of a batch are read from, and whether rows with one key can be in two of its tasks."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, Final, NamedTuple

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType

from sowline.commands.pipeline_row import SourceField
from sowline.spark.footers import Footer, read_footer
from sowline.spark.hadoop import row_url

READ_FOOTERS_MAX: Final = 16
"""Files whose footers the driver reads one after the other. If there are more, executors read their first rows."""

_METADATA: Final = "__file_source_metadata_col"
"""Spark's mark of the column `_metadata`, which it makes when it reads files. Columns in files never have it."""

_PARQUET: Final = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
"""Spark's own format. One that extends it may leave out rows that a file has."""

_DIVIDING: Final = (
    "spark.sql.files.minPartitionNum",
    "spark.sql.leafNodeDefaultParallelism",
    "spark.default.parallelism",
)
"""Settings that take the place of the number of cores."""

_TYPES: Final = (IntegerType(), LongType(), StringType())
"""Types that Spark reads unchanged: in a narrower type, different values of a file could become equal."""


class SourceFiles(NamedTuple):
    """The URLs of the files, sorted, and whether rows with the same key are in one file, which one task reads whole.

    Such rows are in their order already, and no other task has any of them.
    """

    urls: Sequence[str]
    are_apart: bool = False


def source_files(rows: DataFrame, key: Column | None = None) -> SourceFiles:
    """Return the files that rows with `_source` come from; `key` makes the key, if it is one column.

    Files that rows are only joined with are not among them, nor are files that have no rows, or none that are left.
    """
    files = rows.select(SourceField.FILE.column, SourceField.NUMBER.column)
    relation = _relation_of_whole_files(files)
    if relation is None:
        found = files.select(SourceField.FILE).where(F.col(SourceField.FILE).isNotNull()).distinct()
        return SourceFiles(sorted(file for (file,) in found.collect()))
    if relation.fileFormat().getClass().getName() == _PARQUET:
        urls = {str(url) for url in relation.location().inputFiles()}
        if len(urls) <= READ_FOOTERS_MAX:
            # The executors report a missing or damaged file, unless Spark's settings say to ignore it.
            with suppress(Py4JJavaError):
                return _by_footers(rows, files, relation, urls, key)
    # Each file that has rows has one with this number: one row a file, and names are not compared.
    first = files.where(F.col(SourceField.NUMBER) == 0).select(SourceField.FILE)
    return SourceFiles(sorted(file for (file,) in first.collect()))


def _by_footers(
    rows: DataFrame, files: DataFrame, relation: Any, urls: set[str], key: Column | None
) -> SourceFiles:
    spark = rows.sparkSession
    column = None if key is None else _column_of_files(rows, key)
    footers = {url: read_footer(spark, relation.options(), url, column) for url in urls}
    footers = {row_url(spark, url): footer for url, footer in footers.items() if footer.rows > 0}
    are_apart = (
        column is not None
        # Spark takes the value of such a column from the name of a directory, regardless of the files.
        and column not in list(relation.partitionSchema().fieldNames())
        and relation.bucketSpec().isEmpty()
        and _divides_equally(spark)
        and _ranges_are_apart(list(footers.values()))
        and _splits(files) == len(urls)
    )
    return SourceFiles(sorted(footers), are_apart)


def _ranges_are_apart(footers: Sequence[Footer]) -> bool:
    """Whether no value can be in two files."""
    known = [footer.range for footer in footers if footer.range is not None]
    if len(known) < len(footers) or len({type(one.first) for one in known}) > 1:
        return False
    return all(before.last < after.first for before, after in pairwise(sorted(known)))


def _divides_equally(spark: SparkSession) -> bool:
    """Whether Spark divides files when it writes as it does now.

    By default the parts are smaller if more cores have registered: on a cluster, that changes while a job begins.
    """
    master = spark.sparkContext.master or ""
    is_local = master == "local" or master.startswith("local[")
    return is_local or any(spark.conf.get(name, None) is not None for name in _DIVIDING)


def _splits(files: DataFrame) -> int | None:
    """Return the number of parts in which tasks read files; None if that can't be said."""
    plan: Any = files._jdf.queryExecution().executedPlan()
    while plan.children().size() == 1:
        plan = plan.children().head()
    if plan.getClass().getSimpleName() != "FileSourceScanExec":
        return None
    partitions = plan.inputRDDs().head().filePartitions()
    return sum(len(partitions.apply(at).files()) for at in range(partitions.size()))


def _column_of_files(rows: DataFrame, key: Column) -> str | None:
    """Return the column of files that a column of rows is, if these are what tasks read, as they read it."""
    # The plan of the whole frame counts: steps that the names of files do not need may move rows to other tasks.
    keys = rows.select(key)
    if (
        not _is_scan(rows._jdf.queryExecution().optimizedPlan())
        or keys.schema.fields[0].dataType not in _TYPES
    ):
        return None
    if rows.sparkSession.conf.get("spark.sql.parquet.fieldId.read.enabled") == "true":
        return None  # a column may have another name in the files
    plan: Any = keys._jdf.queryExecution().optimizedPlan()
    column = plan.expressions().head() if plan.nodeName() == "Project" else plan.output().head()
    column = column.child() if column.nodeName() == "Alias" else column
    # A footer can't tell a dot from a path.
    if column.nodeName() != "AttributeReference" or "." in column.name():
        return None
    return str(column.name())


def _is_scan(plan: Any) -> bool:
    return bool(plan.nodeName() == "Project" and plan.child().nodeName() == "LogicalRelation")


def _relation_of_whole_files(files: DataFrame) -> Any:
    """Return what Spark reads if a frame has Spark's names and numbers of rows, of all rows of its files."""
    plan: Any = files._jdf.queryExecution().optimizedPlan()
    if not _is_scan(plan):
        return None
    columns = plan.expressions()
    fields = [_metadata_field(columns.apply(at)) for at in range(columns.size())]
    return plan.child().relation() if fields == ["file_path", "row_index"] else None


def _metadata_field(column: Any) -> str | None:
    """Return the field of Spark's `_metadata` that an expression of a plan is; None if it is anything else."""
    field = column.child() if column.nodeName() == "Alias" else column
    if field.nodeName() != "GetStructField" or field.child().nodeName() != "AttributeReference":
        return None
    is_spark = field.child().metadata().contains(_METADATA)
    return str(field.extractFieldName()) if is_spark else None
