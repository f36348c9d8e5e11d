"""Sources: rows that have the same number whenever they are read.

Each row has the columns of its schema and `_source`, with the partition, file and number of the row. It also has its
bytes as they came (`value`), its Kafka key (`key`) and headers. Rows that can't be read are separated, with the
reason.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from sowline.protocol.pipeline_row import HEADERS_TYPE, SOURCE, SourceField
from sowline.spark.schema import schema_of
from sowline.spark.source import source_of_file, source_of_kafka
from sowline.spark.source_messages import READ_ROW, SourceMessages

FILE_BYTES_PER_BATCH = 32 * 1024 * 1024
"""Bytes of files in one micro-batch, by default."""
OFFSETS_PER_BATCH = 1_000_000
"""Kafka records in one micro-batch, by default."""
LIMITED_SECONDS_PER_BATCH = 10
"""With a rate limit, a micro-batch has at most the rows that may be written in this time."""
ROW_BYTES = 32
"""Estimated bytes of a row in a file: Parquet takes less, lines of text take more."""

BATCH_LIMITS = frozenset(("maxOffsetsPerTrigger", "maxFilesPerTrigger", "maxBytesPerTrigger"))
"""Spark's options that limit a micro-batch."""

BAD_ROW = "bad row"
KAFKA = "_kafka"
"""The column of a Kafka record's metadata that statements may use: key, topic, partition, offset, time and headers.
"""
OPERATION = "_op"
"""The column with the kind of a Debezium change event: c, r, u or d."""

_CORRUPT = "_corrupt"
_READ = "read"
_OPERATIONS = ("c", "r", "u", "d")

Options = Mapping[str, str]


class SourceRows(NamedTuple):
    """The rows of a source; `refused` has `_source`, `reason` and `message` of the rows that can't be read."""

    rows: DataFrame
    refused: DataFrame | None = None


def batch_limit(options: Options, rows_per_second: float | None, *, of_files: bool) -> Options:
    """Return a source's options with a limit for a micro-batch, unless they have one.

    Spark shuffles and sorts a whole micro-batch before its rows are written at the limited rate.
    """
    if {"maxFilesPerTrigger", "maxBytesPerTrigger"} & set(options):
        return options
    name, most, size = "maxOffsetsPerTrigger", OFFSETS_PER_BATCH, 1
    if of_files:
        name, most, size = "maxBytesPerTrigger", FILE_BYTES_PER_BATCH, ROW_BYTES
    if rows_per_second is not None:
        most = min(most, max(1, round(rows_per_second * LIMITED_SECONDS_PER_BATCH * size)))
    return {name: str(most), **options}


def parquet_files(
    spark: SparkSession, name: str, directory: str, schema: str | None, options: Options
) -> SourceRows:
    """Return the rows of Parquet files that appear in a directory, with the files' own schema unless one is given."""
    fields = _fields(schema) if schema else spark.read.options(**options).parquet(directory).schema
    rows = spark.readStream.options(**options).schema(fields).parquet(directory)
    columns = [F.col(f"`{field}`") for field in fields.names]
    body = F.to_json(F.struct(*columns))
    return SourceRows(rows.select(*columns, _source_of(source_of_file(name=name), body)))


def json_files(spark: SparkSession, name: str, directory: str, schema: str, options: Options) -> SourceRows:
    """Return the rows of files of JSON objects, one a line."""
    lines = _files(spark, directory, options).select("*", F.posexplode("lines").alias("row", "line"))
    rows = lines.where(F.trim("line") != "").select(
        _source_of(source_of_file(F.col("row"), name), F.col("line")), _json("line", schema, options)
    )
    return _readable(rows, f"JSON of {schema}")


def csv_files(
    spark: SparkSession, name: str, directory: str, schema: str, options: Options, *, header: bool = False
) -> SourceRows:
    """Return the rows of CSV files; with `header` the first line of each must name the columns of the schema.

    Values with line breaks are not supported. If the first line of a file names other columns, that line is refused
    and the file is not read.
    """
    files = _files(spark, directory, options).withColumn("fits", F.lit(True))
    first = 0
    if header:
        names = _fields(schema).names
        files = files.withColumn("fits", _names(F.col("lines")[0], options) == F.array(*map(F.lit, names)))
        files = files.withColumn(
            "lines", F.slice("lines", F.when(F.col("fits"), 2).otherwise(1), F.size("lines"))
        )
        files = files.withColumn(
            "lines", F.when(F.col("fits"), F.col("lines")).otherwise(F.slice("lines", 1, 1))
        )
        first = 1
    lines = files.select("*", F.posexplode("lines").alias("row", "line")).where(F.trim("line") != "")
    number = F.col("row") + F.when(F.col("fits"), first).otherwise(0)
    own = {"escape": '"', **options, "columnNameOfCorruptRecord": _CORRUPT}
    parsed = F.from_csv("line", f"{schema}, {_CORRUPT} STRING", own)
    rows = lines.select(
        _source_of(source_of_file(number, name), F.col("line")),
        F.when(F.col("fits") & F.is_valid_utf8("line"), parsed).alias("fields"),
    )
    return _readable(rows, f"CSV of {schema}")


def kafka_json(
    spark: SparkSession, name: str, kafka: Options, topic: str, schema: str, options: Options
) -> SourceRows:
    """Return the JSON records of a Kafka topic. A record without a value has null in each column of the schema."""
    records = _records(spark, name, kafka, topic, options)
    return _readable(records.select("*", _json("text", schema, options)), f"JSON of {schema}")


def kafka_messages(
    spark: SparkSession, name: str, kafka: Options, topic: str, messages: SourceMessages, options: Options
) -> SourceRows:
    """Return the messages of a Kafka topic, with the columns of their reader schema.

    A record without a value has null in each column.
    """
    records = _read_by(messages, _records(spark, name, kafka, topic, options))
    is_refused = F.col(f"{_READ}.reason").isNotNull()
    fields = F.from_json(f"{_READ}.body", schema_of(messages.reader)).alias("fields")
    rows = records.where(~is_refused).select(SOURCE, KAFKA, fields).select(SOURCE, KAFKA, "fields.*")
    refused = records.where(is_refused).select(SOURCE, f"{_READ}.reason", f"{_READ}.message")
    return SourceRows(rows, refused)


def kafka_untyped(
    spark: SparkSession,
    name: str,
    kafka: Options,
    topic: str,
    messages: SourceMessages,
    schema: str,
    options: Options,
) -> SourceRows:
    """Return the messages of a Kafka topic whose type has no schemas, with the columns of `schema`.

    Their canonical JSON is read as that of a JSON topic is. A record without a value has null in each column.
    """
    records = _read_by(messages, _records(spark, name, kafka, topic, options))
    bodies = records.withColumn("text", F.col(f"{_READ}.body"))
    return _readable(bodies.select("*", _json("text", schema, options)), f"JSON of {schema}")


def _read_by(messages: SourceMessages, records: DataFrame) -> DataFrame:
    """Return what the codec of a source has read of each record, as `_READ`."""
    read = F.udf(messages.read, READ_ROW)(F.col(SourceField.VALUE.column))
    return records.select(SOURCE, KAFKA, read.alias(_READ))


def debezium(
    spark: SparkSession, name: str, kafka: Options, topic: str, schema: str, options: Options
) -> SourceRows:
    """Return the rows in the Debezium change events of a Kafka topic, with `_op`: c, r, u or d.

    The schema is that of the table's rows. A deleted row has the columns that its event contains. Events may have
    Debezium's schema envelope or not. The events without a value that follow a deletion are skipped.
    """
    envelope = f"before STRUCT<{schema}>, after STRUCT<{schema}>, op STRING"
    records = _records(spark, name, kafka, topic, options).where("text IS NOT NULL")
    parsed = records.select("*", _json("text", f"{envelope}, payload STRUCT<{envelope}>", options))
    update = F.coalesce("fields.payload", F.struct("fields.before", "fields.after", "fields.op"))
    corrupt = F.col(f"fields.{_CORRUPT}").isNotNull()
    events = parsed.select("*", update.alias("update"), corrupt.alias("corrupt"))
    row = F.when(F.col("update.op") == "d", F.col("update.before")).otherwise(F.col("update.after"))
    known = F.col("update.op").isin(*_OPERATIONS) & ~F.col("corrupt")
    fields = _fields(schema).names
    return _readable(
        events.select(
            SOURCE,
            KAFKA,
            "text",
            F.when(
                known & row.isNotNull(),
                F.struct(
                    *(row[field].alias(field) for field in fields),
                    F.col("update.op").alias(OPERATION),
                    F.lit(None).cast("string").alias(_CORRUPT),
                ),
            ).alias("fields"),
        ),
        f"a change event (op c, r, u or d, with its row) of {schema}",
    )


def _files(spark: SparkSession, directory: str, options: Options) -> DataFrame:
    """Return files of text as their `lines`, because Spark does not number the rows of text stably."""
    names = ("maxFilesPerTrigger", "maxBytesPerTrigger", "cleanSource", "sourceArchiveDir", "latestFirst")
    more = ("pathGlobFilter", "recursiveFileLookup", "maxFileAge", "fileNameOnly", "encoding")
    own = {name: value for name, value in options.items() if name in (*names, *more)}
    files = spark.readStream.options(**own).text(directory, wholetext=True)
    text = F.regexp_replace("value", "^\\x{FEFF}", "")
    return files.select("_metadata", F.split(text, "\r?\n").alias("lines"))


def _records(spark: SparkSession, name: str, kafka: Options, topic: str, options: Options) -> DataFrame:
    settings = {
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
        "includeHeaders": "true",
        **kafka,
        **options,
    }
    records = spark.readStream.format("kafka").options(**settings).option("subscribe", topic).load()
    about = ("topic", "partition", "offset", "timestamp", "headers")
    return records.select(
        _source_of(source_of_kafka(name), F.col("value"), F.col("key"), F.col("headers")),
        F.struct(F.col("key").cast("string").alias("key"), *about).alias(KAFKA),
        F.col("value").cast("string").alias("text"),
    )


def _source_of(
    source: Column, value: Column, key: Column | None = None, headers: Column | None = None
) -> Column:
    """Add to `_source` the parts of a dead letter."""
    key = F.lit(None) if key is None else key
    headers = F.lit(None) if headers is None else headers
    return (
        source.withField(SourceField.VALUE, value.cast("binary"))
        .withField(SourceField.KEY, key.cast("binary"))
        .withField(SourceField.HEADERS, headers.cast(HEADERS_TYPE))
        .alias(SOURCE)
    )


def _json(text: str, schema: str, options: Options) -> Column:
    own = {"allowSingleQuotes": "false", **options, "columnNameOfCorruptRecord": _CORRUPT}
    # Spark reads one value and ignores what follows it. Read as the content of an array, there must be exactly one.
    is_one = F.json_array_length(F.concat(F.lit("["), F.col(text), F.lit("]"))) == 1
    parsed = F.from_json(text, f"{schema}, {_CORRUPT} STRING", own)
    return F.when(is_one & F.is_valid_utf8(F.col(text)), parsed).alias("fields")


def _names(line: Column, options: Options) -> Column:
    """Return the names in the first line of a CSV file."""
    separator = options.get("sep", options.get("delimiter", ","))
    parts = F.split(line, f"\\Q{separator}\\E")
    return F.transform(parts, lambda part: F.regexp_replace(F.trim(part), '^"|"$', ""))


def _readable(rows: DataFrame, expected: str) -> SourceRows:
    """Separate the rows that could be read from the others.

    `text` is null if there was nothing to read. If a codec read the messages, `_READ` says what became of them.
    """
    unread = F.col("fields").isNull() | F.col(f"fields.{_CORRUPT}").isNotNull()
    text = F.col(SourceField.VALUE.column).cast("string")
    if "text" in rows.columns:
        text = F.col("text")
        unread = text.isNotNull() & unread
    got = F.substring(F.make_valid_utf8(text), 1, 200)
    reason, message = F.lit(BAD_ROW), F.concat(F.lit(f"expected {expected}, got "), got)
    if _READ in rows.columns:
        unread = unread | F.col(f"{_READ}.reason").isNotNull()
        reason, message = F.coalesce(f"{_READ}.reason", reason), F.coalesce(f"{_READ}.message", message)
    about = [name for name in (SOURCE, KAFKA) if name in rows.columns]
    good = rows.where(~unread).select(*about, "fields.*").drop(_CORRUPT)
    refused = rows.where(unread).select(SOURCE, reason.alias("reason"), message.alias("message"))
    return SourceRows(good, refused)


def _fields(schema: str) -> StructType:
    fields = StructType.fromDDL(schema)
    assert isinstance(fields, StructType)
    return fields
