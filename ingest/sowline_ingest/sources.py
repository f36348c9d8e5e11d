"""Sources: rows that have the same number whenever they are read.

Each row has the columns of its schema and `_source`, with the partition, file and number of the row. It also has its
original bytes (`value`), its Kafka key (`key`) and headers. Rows that can't be read are separated, with the
reason.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from sowline.commands.pipeline_row import BAD_ROW, HEADERS_TYPE, SOURCE, SourceField
from sowline.spark.row_json import readable_json
from sowline.spark.schema import schema_of
from sowline.spark.source import source_of_file, source_of_kafka
from sowline.spark.source_messages import READ_ROW, SourceMessages
from sowline_ingest.csv_records import ISO_8859_1, LINE_END, csv_records, encoding_of, separator_of
from sowline_ingest.debezium import OPERATION, DebeziumRows, source_with_unchanged, with_rows
from sowline_ingest.decimals import exact

FILE_BYTES_PER_BATCH = 32 * 1024 * 1024
"""Bytes of files in one micro-batch, by default."""
OFFSETS_PER_BATCH = 1_000_000
"""Kafka records in one micro-batch, by default."""
LIMITED_SECONDS_PER_BATCH = 10
"""With a rate limit, a micro-batch has at most the rows that may be written in this time."""
ROW_BYTES = 32
"""Estimated bytes of a row in a file: Parquet takes less, lines of text take more."""

_FILE_LIMITS = frozenset(("maxfilespertrigger", "maxbytespertrigger"))
_BATCH_LIMITS = _FILE_LIMITS | {"maxoffsetspertrigger"}
"""Spark's options that limit a micro-batch, in lower case."""

_FILE_OPTIONS = _FILE_LIMITS | {
    "cleansource",
    "sourcearchivedir",
    "latestfirst",
    "pathglobfilter",
    "recursivefilelookup",
    "maxfileage",
    "filenameonly",
}
"""Spark's options of a source that apply to its files rather than to their lines, in lower case."""

KAFKA = "_kafka"
"""The column of a Kafka record's metadata that statements may use: key, topic, partition, offset, time and headers.
"""
_NO_UTF_8 = "expected UTF-8, got "
_ODD = "expected quotes around a whole value, with those in it escaped, got "
_OPEN = "expected an end of the quoted value that begins here or in a line before, got "
_CORRUPT = "_corrupt"
_READ = "read"

Options = Mapping[str, str]


class SourceRows(NamedTuple):
    """The rows of a source; `refused` has `_source`, `reason` and `message` of the rows that can't be read."""

    rows: DataFrame
    refused: DataFrame | None = None


def batch_limit(options: Options, rows_per_second: float | None, *, of_files: bool) -> Options:
    """Return a source's options with a limit for a micro-batch, unless they have one.

    Spark shuffles and sorts a whole micro-batch before its rows are written at the limited rate.
    """
    # Spark ignores the case of its options.
    given = {name.lower() for name in options}
    if _FILE_LIMITS & given:
        return options
    name, most, size = "maxOffsetsPerTrigger", OFFSETS_PER_BATCH, 1
    if of_files:
        name, most, size = "maxBytesPerTrigger", FILE_BYTES_PER_BATCH, ROW_BYTES
    if rows_per_second is not None:
        most = min(most, max(1, round(rows_per_second * LIMITED_SECONDS_PER_BATCH * size)))
    return options if name.lower() in given else {name: str(most), **options}


def without_limits(options: Options) -> Options:
    """Return a source's options without those that limit a micro-batch."""
    return {name: value for name, value in options.items() if name.lower() not in _BATCH_LIMITS}


def file_options(options: Options) -> Options:
    """Return the options of a source that apply to its files rather than to their lines."""
    return {name: value for name, value in options.items() if name.lower() in _FILE_OPTIONS}


def parquet_files(
    spark: SparkSession, name: str, directory: str, schema: str | None, options: Options
) -> SourceRows:
    """Return the rows of Parquet files that appear in a directory, with the files' own schema unless one is given."""
    # A stream of files must know its columns when it starts: those of the files that are there now.
    fields = fields_of(schema) if schema else spark.read.options(**options).parquet(directory).schema
    rows = spark.readStream.options(**options).schema(fields).parquet(directory)
    columns = [F.col(f"`{field}`") for field in fields.names]
    body = F.expr(readable_json(fields))
    return SourceRows(rows.select(*columns, _source_of(source_of_file(name=name), body)))


def json_files(files: DataFrame, name: str, schema: str, options: Options) -> SourceRows:
    """Return the rows of files, as from `file_texts`, of JSON objects, one a line."""
    files = files.withColumn("lines", F.split("text", LINE_END))
    # Blank lines are dropped after they are numbered: the number of a dead letter is that of the line in the file.
    lines = files.select("*", F.posexplode("lines").alias("row", "line")).where(F.trim("line") != "")
    texts = lines.withColumn("text", _text_of(F.col("line"), options))
    rows = texts.select(
        _source_of(source_of_file(F.col("row"), name), _bytes_of(F.col("line"))),
        "text",
        _json("text", schema, options),
    )
    return _readable(rows, f"JSON of {schema}")


def csv_files(files: DataFrame, name: str, schema: str, options: Options, *, header: bool) -> SourceRows:
    """Return the rows of CSV files, as from `file_texts`.

    With `header`, the first line of each must name the columns of the schema.

    A quoted value may have line breaks. If it has no end, or text follows its end in a later line, then no record
    after it can be told from a value, and each line is refused. If the first line of a file names other columns, that
    line is refused and the file is not read.
    """
    files = _cut(files, options)
    fits = F.lit(True)
    if header:
        names = F.array(*map(F.lit, fields_of(schema).names))
        fits = _names(_text_of(F.col("lines")[0], options), options) == names
    # Next to the generator, `fits` would be computed for each line, with a copy of all lines. Without `outer`, Spark
    # infers a filter of files without lines, and cuts each file twice for it.
    files = files.select("*", fits.alias("fits"))
    lines = files.select("*", F.posexplode_outer("lines").alias("row", "line")).drop("lines")
    # Only now, so that a blank line has a number too: a row's number is that of its record in the file (test_csv).
    lines = lines.where(F.trim("line") != "")
    if header:
        lines = lines.where((F.col("row") > 0) == F.col("fits"))
    own = {"escape": '"', **_parsing(options), "columnNameOfCorruptRecord": _CORRUPT}
    texts = lines.withColumn("text", _text_of(F.col("line"), options)).withColumn(
        "problem", _quoting(options)
    )
    parsed = exact(
        fields_of(f"{schema}, {_CORRUPT} STRING"), lambda fields: F.from_csv("text", fields.toDDL(), own)
    )
    is_row = F.col("fits") & F.col("problem").isNull() & F.is_valid_utf8("text")
    rows = texts.select(
        _source_of(source_of_file(F.col("row"), name), _bytes_of(F.col("line"))),
        "text",
        "problem",
        F.when(is_row, parsed).alias("fields"),
    )
    return _readable(rows, f"CSV of {schema}")


def _cut(files: DataFrame, options: Options) -> DataFrame:
    """Return the records of CSV files as `lines`; those from number `known` on may be parts of a value, by `unknown`.

    A file is held in memory several times while it is cut, so nothing else is made of all its lines at once.
    """
    if (found := csv_records(options)) is None:
        lines = F.split("text", LINE_END)
        return files.select("_metadata", lines.alias("lines")).select(
            "*", F.size("lines").alias("known"), F.lit(None).cast("string").alias("unknown")
        )
    # UTF-16 has bytes of quotes and line ends within other characters.
    is_utf_16 = F.col("text").rlike("^(?:\\xff\\xfe|\\xfe\\xff)")
    length = F.when(is_utf_16, 0).otherwise(F.length(F.regexp_extract("text", found.trusted, 0)))
    unknown = F.when(is_utf_16, _NO_UTF_8).otherwise(_OPEN)
    files = files.select("_metadata", "text", unknown.alias("unknown"), length.alias("length"))
    records = F.regexp_extract_all(F.left("text", F.col("length")), F.lit(found.cut), F.lit(1))
    rest = F.split(F.substring("text", F.col("length") + 1, F.length("text")), LINE_END)
    is_whole = F.col("length") == F.length("text")
    # An empty file has no record, but one line: the names of the columns are looked for in the first one.
    lines = F.when(F.col("length") == 0, rest).when(is_whole, records).otherwise(F.concat(records, rest))
    unknown_size = F.when(is_whole, 0).otherwise(F.size(rest))
    files = files.select("_metadata", "unknown", unknown_size.alias("size"), lines.alias("lines"))
    return files.select("_metadata", "unknown", "lines", (F.size("lines") - F.col("size")).alias("known"))


def _quoting(options: Options) -> Column:
    """Return the error in the quotes of a line; null if there is none."""
    problem = F.when(F.col("row") >= F.col("known"), F.col("unknown"))
    found = csv_records(options)
    return problem if found is None else problem.when(~F.col("line").rlike(found.record), _ODD)


def all_of(source: SourceRows) -> DataFrame:
    """Return the rows of files that are read once; a row that can't be read ends the pipeline."""
    rows = source.rows.drop(SOURCE)
    if source.refused is None:
        return rows
    failed = F.raise_error(F.concat_ws(": ", "reason", "message"))
    refused = source.refused.select(
        *(failed.cast(one.dataType).alias(one.name) for one in rows.schema.fields)
    )
    return rows.unionByName(refused)


def kafka_json(records: DataFrame, schema: str, options: Options) -> SourceRows:
    """Return the JSON records of a Kafka topic. A record without a value has null in each column of the schema.

    Messages of a type without schemas are read as their canonical JSON, which `read_by` adds.
    """
    return _readable(records.select("*", _json("text", schema, options)), f"JSON of {schema}")


def kafka_messages(records: DataFrame, messages: SourceMessages) -> SourceRows:
    """Return the messages of a Kafka topic, with the columns of their reader schema.

    A record without a value has null in each column.
    """
    fields = StructType([*schema_of(messages.reader).fields, StructField(_CORRUPT, StringType())])
    parsed = F.from_json("text", fields, {"columnNameOfCorruptRecord": _CORRUPT}).alias("fields")
    read = read_by(messages, records).select("*", parsed)
    return _readable(read, "values that fit the columns of the reader schema")


def read_by(messages: SourceMessages, records: DataFrame) -> DataFrame:
    """Return the codec's result for each record of a source, as `_READ`, and its JSON as `text`."""
    read = F.udf(messages.read, READ_ROW)(F.col(SourceField.VALUE.column))
    return records.select(SOURCE, KAFKA, read.alias(_READ)).withColumn("text", F.col(f"{_READ}.body"))


def debezium(records: DataFrame, schema: str, options: Options, rows: DebeziumRows) -> SourceRows:
    """Return the rows in the Debezium change events of a Kafka topic, with `_op`: c, r, u or d.

    The schema is that of the table's rows. A deleted row has the columns that its event contains. An update of the
    key is two rows: the deletion of the old one, and the new one. Events may have Debezium's schema envelope or not.
    The events without a value that follow a deletion are skipped.
    """
    envelope = f"before STRUCT<{schema}>, after STRUCT<{schema}>, op STRING"
    parsed = records.where("text IS NOT NULL").select(
        "*", _json("text", f"{envelope}, payload STRUCT<{envelope}>", options)
    )
    update = F.coalesce("fields.payload", F.struct("fields.before", "fields.after", "fields.op"))
    is_read = F.col("fields").isNotNull() & F.col(f"fields.{_CORRUPT}").isNull()
    events = with_rows(parsed.select("*", F.when(is_read, update).alias("update")), rows)
    corrupt = F.lit(None).cast("string").alias(_CORRUPT)
    row = F.struct(*(f"row.`{field}`" for field in rows.fields.names), f"row.{OPERATION}", corrupt)
    return _readable(
        events.select(
            source_with_unchanged(F.col(SOURCE)).alias(SOURCE),
            KAFKA,
            "text",
            "problem",
            F.when(F.col("row").isNotNull(), row).alias("fields"),
        ),
        f"a change event (op c, r, u or d, with its row) of {schema}",
    )


def file_texts(spark: SparkSession, directory: str, options: Options, *, once: bool) -> DataFrame:
    """Return each file as one `text`, a character for each byte; with `once`, only files that exist now.

    Spark does not number lines of text stably.
    """
    reader = spark.read if once else spark.readStream
    files = reader.options(**file_options(options)).text(directory, wholetext=True)
    # Spark replaces bytes that are not UTF-8. In ISO 8859-1, each byte is a character, so none is lost.
    text = F.decode(F.col("value").cast("binary"), ISO_8859_1)
    return files.select("_metadata", F.regexp_replace(text, "^\\xef\\xbb\\xbf", "").alias("text"))


def _bytes_of(line: Column) -> Column:
    return F.encode(line, ISO_8859_1)


def _text_of(line: Column, options: Options) -> Column:
    """Return a line in the encoding of its file, which may not be UTF-8."""
    return line if encoding_of(options) == ISO_8859_1 else _bytes_of(line).cast("string")


def _parsing(options: Options) -> dict[str, str]:
    """Return the options that apply to a line rather than to its file."""
    return {name: value for name, value in options.items() if name.lower() not in ("encoding", "charset")}


def kafka_records(spark: SparkSession, name: str, kafka: Options, topic: str, options: Options) -> DataFrame:
    """Return the records of a Kafka topic: their origin, their metadata, and their values as `text`."""
    settings = {
        "startingOffsets": "earliest",
        # By default Spark's source also reads the records of transactions that were aborted.
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
    """Add the parts of a dead letter to `_source`."""
    key = F.lit(None) if key is None else key
    headers = F.lit(None) if headers is None else headers
    return (
        source.withField(SourceField.VALUE, value.cast("binary"))
        .withField(SourceField.KEY, key.cast("binary"))
        .withField(SourceField.HEADERS, headers.cast(HEADERS_TYPE))
        .withField(SourceField.UNCHANGED, F.lit(None).cast("array<string>"))
        .alias(SOURCE)
    )


def _json(text: str, schema: str, options: Options) -> Column:
    # By default Spark also takes `{'id':7}` for JSON, and replaces bytes that are not UTF-8. Such a record must be a
    # dead letter with its bytes (test_only_one_value_is_json).
    own = {"allowSingleQuotes": "false", **_parsing(options), "columnNameOfCorruptRecord": _CORRUPT}
    # Spark reads one value and ignores what follows it. Read as the content of an array, there must be exactly one.
    is_one = F.json_array_length(F.concat(F.lit("["), F.col(text), F.lit("]"))) == 1
    parsed = exact(fields_of(f"{schema}, {_CORRUPT} STRING"), lambda fields: F.from_json(text, fields, own))
    return F.when(is_one & F.is_valid_utf8(F.col(text)), parsed).alias("fields")


def _names(line: Column, options: Options) -> Column:
    """Return the names in the first line of a CSV file."""
    # Quoted, because the separator `|` would be an operator of the regular expression.
    parts = F.split(line, f"\\Q{separator_of(options)}\\E")
    return F.transform(parts, lambda part: F.regexp_replace(F.trim(part), '^"|"$', ""))


def _readable(rows: DataFrame, expected: str) -> SourceRows:
    """Separate the rows that could be read from the others.

    `text` is null if there was nothing to read. If a codec read the messages, `_READ` has its results. `problem` is
    the error of a row, such as the quotes in CSV; null if none is known.
    """
    unread = F.col("fields").isNull() | F.col(f"fields.{_CORRUPT}").isNotNull()
    text = F.col("text")
    unread = text.isNotNull() & unread
    got = F.substring(F.make_valid_utf8(text), 1, 200)
    start = F.when(F.is_valid_utf8(text), f"expected {expected}, got ").otherwise(_NO_UTF_8)
    if "problem" in rows.columns:
        start = F.coalesce("problem", start)
    reason, message = F.lit(BAD_ROW), F.concat(start, got)
    if _READ in rows.columns:
        unread = unread | F.col(f"{_READ}.reason").isNotNull()
        reason, message = F.coalesce(f"{_READ}.reason", reason), F.coalesce(f"{_READ}.message", message)
    about = [name for name in (SOURCE, KAFKA) if name in rows.columns]
    good = rows.where(~unread).select(*about, "fields.*").drop(_CORRUPT)
    refused = rows.where(unread).select(SOURCE, reason.alias("reason"), message.alias("message"))
    return SourceRows(good, refused)


def fields_of(schema: str) -> StructType:
    """Return the columns that a schema declares."""
    fields = StructType.fromDDL(schema)
    assert isinstance(fields, StructType)
    return fields
