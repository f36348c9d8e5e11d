"""The column `_source` with the origin of a row, as `sowline.commands.pipeline_row` describes it."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from sowline.commands.pipeline_row import SOURCE, SourceField


def source_of_kafka(name: str = "") -> Column:
    """Return `_source` of a frame of Kafka records, from its columns `partition` and `offset`.

    `name` distinguishes several sources of one job.
    """
    return source(_partition(name, F.col("partition").cast("string")), None, F.col("offset"))


def source_of_file(row: Column | None = None, name: str = "") -> Column:
    """Return `_source` of a frame that is read from files; `row` numbers the rows of a file, and never changes.

    Parquet numbers its rows itself; other formats need a `row`. `name` is as for Kafka.
    """
    row = F.col("_metadata.row_index") if row is None else row
    return source(_partition(name, F.lit("0")), F.col("_metadata.file_path"), row)


def source(partition: Column, file: Column | None, number: Column, **more: Column) -> Column:
    """Return the column; `more` are further fields."""
    return F.struct(
        partition.alias(SourceField.PARTITION),
        (F.lit(None) if file is None else file).cast("string").alias(SourceField.FILE),
        number.cast("bigint").alias(SourceField.NUMBER),
        *(value.alias(field) for field, value in more.items()),
    ).alias(SOURCE)


def _partition(name: str, number: Column) -> Column:
    return F.concat(F.lit(f"{name}/"), number) if name else number
