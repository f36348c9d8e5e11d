"""The files that the rows of a batch come from."""

from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from sowline.commands.pipeline_row import SourceField

_METADATA: Final = "__file_source_metadata_col"
"""Spark's mark of the column `_metadata`, which it makes when it reads files. Columns in files never have it."""


def source_files(rows: DataFrame) -> list[str]:
    """Return the URLs of the files that rows with `_source` come from, sorted.

    Files that rows are only joined with are not among them, nor are files that have no rows, or none that are left.
    """
    files = rows.select(SourceField.FILE.column, SourceField.NUMBER.column)
    if _are_whole_files(files):
        # Each file that has rows has one with this number: one row a file, and names are not compared.
        found = files.where(F.col(SourceField.NUMBER) == 0).select(SourceField.FILE)
    else:
        found = files.select(SourceField.FILE).where(F.col(SourceField.FILE).isNotNull()).distinct()
    return sorted(file for (file,) in found.collect())


def _are_whole_files(files: DataFrame) -> bool:
    """Whether Spark's own names and numbers of rows are what a frame has, of all rows of files that Spark reads."""
    plan: Any = files._jdf.queryExecution().optimizedPlan()
    if plan.nodeName() != "Project" or plan.child().nodeName() != "LogicalRelation":
        return False
    columns = plan.expressions()
    return [_metadata_field(columns.apply(at)) for at in range(columns.size())] == ["file_path", "row_index"]


def _metadata_field(column: Any) -> str | None:
    """Return which field of Spark's `_metadata` an expression of a plan is; None if it is anything else."""
    field = column.child() if column.nodeName() == "Alias" else column
    if field.nodeName() != "GetStructField" or field.child().nodeName() != "AttributeReference":
        return None
    is_spark = field.child().metadata().contains(_METADATA)
    return str(field.extractFieldName()) if is_spark else None
