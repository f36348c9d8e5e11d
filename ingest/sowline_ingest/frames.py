"""A declared pipeline as one data frame: from the rows of its sources to commands and dead letters.

Nothing runs here: a frame is a plan. It is Spark SQL, except that Python on the executors reads and writes messages
of types other than JSON.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sowline.codecs.codec import codec_of
from sowline.codecs.schema import Schema, SchemaType
from sowline.commands.command import PUBLISH, SOW_DELETE
from sowline.commands.pipeline_row import (
    FAILURE,
    HEADERS,
    HEADERS_TYPE,
    KEY,
    PART,
    PROBLEM,
    REASON,
    REFUSED,
    ROW_FIELDS,
    SOURCE,
    VALUE,
    SourceField,
)
from sowline.config.topic_definition import TopicDefinition
from sowline.config.yaml_file import Location, YamlFile, YamlFileError
from sowline.errors import SowlineError
from sowline.spark.commands import body_fields, command_rows, dead_headers
from sowline.spark.registry import latest_schema
from sowline.spark.schema import schema_of
from sowline.spark.source_messages import SourceMessages
from sowline.spark.typed_rows import typed_rows
from sowline_ingest.debezium import (
    OPERATION,
    DebeziumRows,
    merging,
    nulls_of,
    partial_command,
    without_unchanged,
)
from sowline_ingest.definition import ROWS, LookupTable, Pipeline, Source, TransformStep
from sowline_ingest.sources import (
    Options,
    SourceRows,
    all_of,
    batch_limit,
    csv_files,
    debezium,
    fields_of,
    file_texts,
    json_files,
    kafka_json,
    kafka_messages,
    kafka_records,
    parquet_files,
    read_by,
)
from sowline_ingest.syntax import ERROR_CODE

CHECK_FAILED = "check failed"


class Frames:
    """Builds the frame of a pipeline. Raises `bad configuration`, with the line, for a statement with an error."""

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        declaration: YamlFile,
        kafka: Mapping[str, str],
        registry: str = "",
        typed: TopicDefinition | None = None,
    ) -> None:
        """`typed` is the topic if its message type is not JSON, and `registry` the URL of the schema registry."""
        self._spark = spark
        self._pipeline = pipeline
        self._declaration = declaration
        self._kafka = kafka
        self._registry = registry
        self._typed = typed
        self._views: list[str] = []
        self.columns: list[tuple[str, str]] = []
        """Names and types of the columns that commands are made of, once the rows are built."""

    def rows(self) -> DataFrame:
        """Return the rows in the sink's columns: `key`, `value`, `headers`, `refused`, `_source` and `_part`."""
        try:
            sources = self._sources()
            rows = self._transformed(sources)
        finally:
            # The session outlives this frame, and another pipeline in it must not find these views. The rows that
            # were built keep the plans that the views had.
            for name in self._views:
                self._spark.catalog.dropTempView(name)
        self.columns = rows.dtypes
        written = self._commands(rows)
        for name, source in sources.items():
            if source.refused is not None:
                with self._at("sources", name):
                    written = written.unionByName(_unread(source.refused), allowMissingColumns=True)
        return written

    def _sources(self) -> dict[str, SourceRows]:
        sources = {}
        for name, table in self._pipeline.tables.items():
            with self._at("tables", name):
                self._view(name, self._table(name, table))
        for name, source in self._pipeline.sources.items():
            with self._at("sources", name):
                sources[name] = self._read(name, source)
                self._view(name, sources[name].rows)
        return sources

    def _table(self, name: str, table: LookupTable) -> DataFrame:
        options = table.options
        if table.format == "csv" or (table.format == "json" and not table.is_multi_line):
            return all_of(self._files(name, table, options, once=True))
        # By default, Spark reads null for what it can't read, and the join would silently find nothing.
        reader = self._spark.read.format(table.format).options(**{"mode": "FAILFAST", **options})
        return (reader.schema(table.ddl) if table.ddl else reader).load(table.directory)

    def _read(self, name: str, source: Source) -> SourceRows:
        of_files = not source.kafka
        options = batch_limit(source.options, self._pipeline.rows_per_second, of_files=of_files)
        if source.format == "parquet":
            return parquet_files(self._spark, name, source.directory, source.ddl, options)
        if of_files:
            return self._files(name, source, options, once=False)
        records = kafka_records(self._spark, name, self._kafka, source.kafka, options)
        if source.message_type is not None:
            return kafka_messages(records, self._messages(name, source, source.message_type))
        if source.format == "debezium":
            rows = DebeziumRows(
                fields_of(source.ddl), source.unavailable_value_placeholder, self._pipeline.key
            )
            return debezium(records, source.ddl, options, rows)
        if source.format_options is not None:
            records = read_by(self._untyped(name, source.format_options), records)
        return kafka_json(records, source.ddl, options)

    def _files(self, name: str, read: Source | LookupTable, options: Options, *, once: bool) -> SourceRows:
        """Return the rows of files of text: CSV, or JSON objects in lines."""
        files = file_texts(self._spark, read.directory, options, once=once)
        if read.format == "csv":
            return csv_files(files, name, read.ddl, options, header=read.header)
        return json_files(files, name, read.ddl, options)

    def _messages(self, name: str, source: Source, message_type: SchemaType) -> SourceMessages:
        """Return how the messages of a source are read; a subject's latest schema is fixed at this moment."""
        location = ("sources", name)
        if source.needs_registry and not self._registry:
            self._refuse(location, "expected the URL of a schema registry in SOWLINE_REGISTRY, got none")
        try:
            if source.reader_schema is not None:
                reader = source.reader_schema.schema_of(message_type)
            else:
                reader = latest_schema(self._registry, source.subject)
            if reader.type != message_type:
                self._refuse(
                    location, f"expected a schema of {message_type} for {source.subject}, got {reader.type}"
                )
            schema_of(reader)
        except SowlineError as error:
            # `_refuse` has raised it: it names its line already.
            if isinstance(error, YamlFileError):
                raise
            self._refuse(location, error.message)
        return SourceMessages(reader, source.framing, self._registry)

    def _untyped(self, name: str, options: Schema) -> SourceMessages:
        """Return how the messages of a source without schemas are read."""
        try:
            codec_of(options)
        except SowlineError as error:
            self._refuse(("sources", name), error.message)
        return SourceMessages(options, "none", "")

    def _transformed(self, sources: Mapping[str, SourceRows]) -> DataFrame:
        rows = next(iter(sources.values())).rows
        if len(sources) == 1:
            self._view(ROWS, rows)
        for at, step in enumerate(self._pipeline.transforms):
            rows = self._step(rows, step, ("transforms", at))
            if rows.columns.count(SOURCE) != 1:
                self._refuse(
                    ("transforms", at),
                    f"expected the rows to keep the column {SOURCE}, by which they are known again:"
                    f" have it in the SELECT list, once, got {', '.join(rows.columns)}",
                )
            self._view(ROWS, rows)
        return rows

    def _step(self, rows: DataFrame, step: TransformStep, location: Location) -> DataFrame:
        if step.select is not None:
            with self._at(*location, "select"):
                return self._spark.sql(step.select)
        if step.where is not None:
            with self._at(*location, "where"):
                return rows.where(F.expr(step.where))
        for name in step.drop or ():
            if name not in rows.columns:
                self._refuse((*location, "drop"), _expected_of(rows, name))
        for name, text in (step.columns or {}).items():
            with self._at(*location, "columns", name):
                rows = rows.withColumn(name, F.expr(text))
        return rows.drop(*(step.drop or ()))

    def _commands(self, rows: DataFrame) -> DataFrame:
        """Return the rows as commands; rows that fail a check are dead letters."""
        pipeline = self._pipeline
        for name in pipeline.key:
            if name not in rows.columns:
                self._refuse(("key",), _expected_of(rows, name))
        texts = {
            name: getattr(pipeline, name)
            for name in ("body", "expiration", "correlation")
            if getattr(pipeline, name) is not None
        }
        for name, text in {**texts, "command": pipeline.command_expression}.items():
            if text is not None:
                with self._at(name):
                    # Spark analyzes each text alone, so that an error names its line.
                    rows.select(F.expr(text))
        names = self._partial_columns(rows)
        # After the steps, since one of them may make a value of a null: `coalesce(note, '')` would overwrite a note
        # that the update did not send (test_debezium_values_that_are_not_there).
        checked = self._checked(without_unchanged(rows, names))
        keys = [F.col(f"`{name}`") for name in pipeline.key]
        own = {name: F.expr(text) for name, text in texts.items()}
        command = self._command(rows)
        if self._has_partial_rows:
            command = partial_command(F.lit(command))
            # A delta without a field leaves it as it was, so a column that became null in the table must be in it as
            # null (test_debezium_values_that_are_not_there).
            own["nulls"] = nulls_of([name for name in names if not name.startswith("_")])
        try:
            commands = command_rows(
                checked,
                keys,
                command,
                keep=(SOURCE, FAILURE),
                key_header=pipeline.key_header,
                definition=self._typed,
                **own,
            )
        except SowlineError as error:
            self._refuse(("key",), error.message)
        reason, message = f"IF({FAILURE} IS NOT NULL, '{CHECK_FAILED}', NULL)", FAILURE
        if self._typed is not None:
            # Rows that failed a check are dead letters in any case, so the codec, which is Python, need not read
            # them.
            passed = commands.withColumn(VALUE, F.when(F.col(FAILURE).isNull(), F.col(VALUE)))
            commands = typed_rows(passed, self._typed)
        if REASON in commands.columns:
            reason, message = f"coalesce({reason}, {REASON})", f"coalesce({message}, {PROBLEM})"
        refused = F.expr(f"{reason} IS NOT NULL")
        value, raw = F.col(VALUE).cast("binary"), F.col(SourceField.VALUE.column)
        dead = _dead_headers(reason, message)
        headers = F.col(HEADERS) if HEADERS in commands.columns else F.lit(None).cast(HEADERS_TYPE)
        return commands.select(
            F.when(~refused, F.col(KEY)).alias(KEY),
            F.when(refused, raw).otherwise(value).alias(VALUE),
            F.when(refused, dead).otherwise(headers).alias(HEADERS),
            refused.alias(REFUSED),
            _number_of_row(),
            *(name for name in (PART,) if name in commands.columns),
        )

    def _checked(self, rows: DataFrame) -> DataFrame:
        """Add the message of the first check that a row fails, or null. A key without a value also fails."""
        messages = [F.lit(None).cast("string")]
        for at, check in enumerate(self._pipeline.checks):
            # A condition that is NULL is not met.
            passed = F.coalesce(F.expr(check.expect), F.lit(False))
            with self._at("checks", at, "expect"):
                # Analyzed alone, so that an error names the line of this text; as a condition, because a check that
                # is a text would otherwise count as one that fails.
                rows.where(F.expr(check.expect))
            messages.insert(-1, F.when(~passed, F.lit(check.message)))
        for name in self._pipeline.key:
            missing = f"expected a value in the key column {name}, got null"
            messages.insert(-1, F.when(F.col(f"`{name}`").isNull(), F.lit(missing)))
        if len(self._pipeline.key) == 1:
            (name,) = self._pipeline.key
            empty = f"expected a value in the key column {name}, got an empty string"
            messages.insert(-1, F.when(F.col(f"`{name}`").cast("string") == "", F.lit(empty)))
        if self._has_partial_rows and self._pipeline.body is None:
            messages.insert(-1, merging(body_fields(rows)))
        return rows.withColumn(FAILURE, F.coalesce(*messages))

    @property
    def _has_partial_rows(self) -> bool:
        """Whether rows may lack columns of their record."""
        return any(source.format == "debezium" for source in self._pipeline.sources.values())

    def _partial_columns(self, rows: DataFrame) -> list[str]:
        """Return the columns that a row of a source may lack, if the steps have kept their names."""
        names: dict[str, None] = {}
        for source in self._pipeline.sources.values():
            if source.format == "debezium":
                names.update(dict.fromkeys(fields_of(source.ddl).names))
        return [name for name in names if name in rows.columns and name not in self._pipeline.key]

    def _command(self, rows: DataFrame) -> str | Column:
        pipeline = self._pipeline
        if pipeline.command_expression is not None:
            return F.expr(pipeline.command_expression)
        if pipeline.command is not None:
            return pipeline.command
        if OPERATION in rows.columns:
            return F.when(F.col(OPERATION) == "d", SOW_DELETE).otherwise(PUBLISH)
        return PUBLISH

    def _view(self, name: str, frame: DataFrame) -> None:
        frame.createOrReplaceTempView(name)
        self._views.append(name)

    @contextmanager
    def _at(self, *location: int | str) -> Iterator[None]:
        try:
            yield
        except PySparkException as error:
            sentences = ERROR_CODE.sub("", str(error).partition(" SQLSTATE")[0].partition(";\n")[0])
            self._refuse(location, " ".join(sentences.split()))

    def _refuse(self, location: Location, reason: str) -> NoReturn:
        raise YamlFileError([self._declaration.problem(location, reason)])


def _expected_of(rows: DataFrame, name: str) -> str:
    return f"expected one of the columns {', '.join(rows.columns)}, got {name}"


def _unread(refused: DataFrame) -> DataFrame:
    return refused.select(
        F.lit(None).cast("string").alias(KEY),
        F.col(SourceField.VALUE.column).alias(VALUE),
        _dead_headers("reason", "message").alias(HEADERS),
        F.lit(True).alias(REFUSED),
        _number_of_row(),
    )


def _number_of_row() -> Column:
    return F.struct(*(F.col(field.column).alias(field) for field in ROW_FIELDS)).alias(SOURCE)


def _dead_headers(reason: str, message: str) -> Column:
    """Return the headers of a dead letter that holds a row unchanged."""
    return F.expr(dead_headers(SourceField.HEADERS.column, SourceField.KEY.column, reason, message))
