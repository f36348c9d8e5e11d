"""Where a row comes from: the column `_source`, by which a row is known again whenever it is read.

It is a struct of `partition` (a string), `file` (its URL; null where the source has no files) and `number` (whole):
the offset of a Kafka record, or the row of a file. Rows that one source row is cut into, and that have one key, are
told apart by a column `_part`, a whole number from 0 on.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

SOURCE = "_source"
PART = "_part"


def source_of_kafka(name: str = "") -> Column:
    """Return `_source` of a frame of Kafka records, from its columns `partition` and `offset`.

    `name` tells several sources of one job apart.
    """
    return source(_partition(name, F.col("partition").cast("string")), None, F.col("offset"))


def source_of_file(row: Column | None = None, name: str = "") -> Column:
    """Return `_source` of a frame that is read from files; `row` numbers the rows of a file, and never changes.

    Parquet numbers its rows by itself; all other formats need a `row`. `name` is as for Kafka.
    """
    row = F.col("_metadata.row_index") if row is None else row
    return source(_partition(name, F.lit("0")), F.col("_metadata.file_path"), row)


def source(partition: Column, file: Column | None, number: Column, **more: Column) -> Column:
    """Return the column; `more` are fields for those who hand the row on."""
    return F.struct(
        partition.alias("partition"),
        (F.lit(None) if file is None else file).cast("string").alias("file"),
        number.cast("bigint").alias("number"),
        *(value.alias(field) for field, value in more.items()),
    ).alias(SOURCE)


def _partition(name: str, number: Column) -> Column:
    return F.concat(F.lit(f"{name}/"), number) if name else number
