"""The files that the rows of a batch come from."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sowline.commands.pipeline_row import SourceField
from sowline.spark.hadoop import row_url

READ_FOOTERS_MAX: Final = 16
"""Files whose footers the driver reads one after the other. Of more, the executors read the first rows."""

_METADATA: Final = "__file_source_metadata_col"
"""Spark's mark of the column `_metadata`, which it makes when it reads files. Columns in files never have it."""

_PARQUET: Final = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"
"""Spark's own format. One that extends it may leave out rows that a file has."""


def source_files(rows: DataFrame) -> list[str]:
    """Return the URLs of the files that rows with `_source` come from, sorted.

    Files that rows are only joined with are not among them, nor are files that have no rows, or none that are left.
    """
    files = rows.select(SourceField.FILE.column, SourceField.NUMBER.column)
    relation = _relation_of_whole_files(files)
    if relation is None:
        found = files.select(SourceField.FILE).where(F.col(SourceField.FILE).isNotNull()).distinct()
        return sorted(file for (file,) in found.collect())
    if relation.fileFormat().getClass().getName() == _PARQUET:
        urls = {str(url) for url in relation.location().inputFiles()}
        if len(urls) <= READ_FOOTERS_MAX:
            return sorted(_with_rows(rows.sparkSession, relation, urls))
    # Each file that has rows has one with this number: one row a file, and names are not compared.
    first = files.where(F.col(SourceField.NUMBER) == 0).select(SourceField.FILE)
    return sorted(file for (file,) in first.collect())


def _with_rows(spark: SparkSession, relation: Any, urls: Iterable[str]) -> Iterator[str]:
    """Yield the URLs of the Parquet files that have rows, by their footers, as rows spell them."""
    jvm: Any = spark._jvm
    parquet = jvm.org.apache.parquet.hadoop
    configuration = spark._jsparkSession.sessionState().newHadoopConfWithOptions(relation.options())
    for url in urls:
        path = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(url))
        reader = parquet.ParquetFileReader.open(parquet.util.HadoopInputFile.fromPath(path, configuration))
        try:
            if reader.getRecordCount() > 0:
                yield row_url(spark, url)
        finally:
            reader.close()


def _relation_of_whole_files(files: DataFrame) -> Any:
    """Return what Spark reads if a frame has Spark's names and numbers of rows, of all rows of its files."""
    plan: Any = files._jdf.queryExecution().optimizedPlan()
    if plan.nodeName() != "Project" or plan.child().nodeName() != "LogicalRelation":
        return None
    columns = plan.expressions()
    fields = [_metadata_field(columns.apply(at)) for at in range(columns.size())]
    return plan.child().relation() if fields == ["file_path", "row_index"] else None


def _metadata_field(column: Any) -> str | None:
    """Return which field of Spark's `_metadata` an expression of a plan is; None if it is anything else."""
    field = column.child() if column.nodeName() == "Alias" else column
    if field.nodeName() != "GetStructField" or field.child().nodeName() != "AttributeReference":
        return None
    is_spark = field.child().metadata().contains(_METADATA)
    return str(field.extractFieldName()) if is_spark else None
