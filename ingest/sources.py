"""Sources: data frames whose every row has a number that is the same each time it is read.

Spark gives the rows of a text file no stable number, and a restarted batch must write its rows under the
numbers they had. So a file is read whole and cut into lines here: a row is known by its file's ordinal (the
number that the file's name begins with) and its line. A file is held in memory by one task while it is cut;
keep files below some ten megabytes.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

FILE = "file"
ROW = "row"


def growing_directory(spark: SparkSession, directory: str, **options: str) -> DataFrame:
    """Return the files that appear in a directory, as a stream of (`file`, `text`).

    Files are taken in the order of their modification times, which must rise with their ordinals; a file
    must appear whole, by a rename. `options` are those of Spark's file source (`maxFilesPerTrigger`,
    `cleanSource`, …).
    """
    reader = spark.readStream.format("text").options(wholetext="true", **options)
    return _numbered(reader.load(directory))


def whole_directory(spark: SparkSession, directory: str, **options: str) -> DataFrame:
    """Return the files that are in a directory now, as (`file`, `text`)."""
    return _numbered(spark.read.format("text").options(wholetext="true", **options).load(directory))


def csv_rows(files: DataFrame, schema: str, options: Mapping[str, str] | None = None) -> DataFrame:
    """Return the rows of CSV files (`file`, `text`): `file`, `row` and the columns of the schema.

    Lines are numbered from 0 as they stand in the file; empty ones are counted and left out. A value with a
    line break in it is not supported. The schema is DDL (`id INT, name STRING`); `options` are those of Spark's
    `from_csv`.
    """
    lines = files.select(FILE, F.posexplode(F.split("text", "\r?\n")).alias(ROW, "line"))
    rows = lines.where(F.length("line") > 0).select(
        FILE, ROW, F.from_csv("line", schema, dict(options or {})).alias("fields")
    )
    return rows.select(FILE, ROW, "fields.*")


def _numbered(files: DataFrame) -> DataFrame:
    return files.select(_ordinal(F.col("_metadata.file_name")).alias(FILE), F.col("value").alias("text"))


def _ordinal(name: Column) -> Column:
    """Return the number that a file's name begins with; a name without one fails the batch and says so."""
    digits = F.regexp_extract(name, r"^(\d+)", 1)
    refusal = F.raise_error(F.concat(F.lit("expected a file name that begins with a number, got "), name))
    return F.when(digits == "", refusal).otherwise(digits).cast("bigint")
