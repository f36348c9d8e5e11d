"""The sink: writes the rows of a data frame as commands to the log of a SOW topic.

One task writes the rows of a key, in the order of their source. Each row has the same number whenever it is written,
so a micro-batch that is written again changes nothing. Java's default partitioner puts keys into the partitions of
their owners.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from sowline.commands.command import PUBLISH
from sowline.commands.pipeline_row import (
    HEADERS,
    HEADERS_TYPE,
    KEY,
    PART,
    PROBLEM,
    REASON,
    REFUSED,
    SOURCE,
    VALUE,
    SinkColumn,
)
from sowline.config.settings import read_settings
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.spark import sql
from sowline.spark.broker import Broker, connected
from sowline.spark.commands import Name, command_rows, dead_headers, key_columns, key_names, sql_header
from sowline.spark.ordinals import Ordinals
from sowline.spark.rate_limit import paced
from sowline.spark.source_files import source_files
from sowline.spark.source_order import in_order, located
from sowline.spark.typed_rows import typed_definition, typed_rows

PRODUCER = {
    "acks": "all",
    "enable.idempotence": "true",
    # If the writer gave up one record and wrote later ones, the record would be lost: its number would count as a
    # repeat.
    "delivery.timeout.ms": "2147483647",
    "linger.ms": "5",
    "batch.size": str(256 * 1024),
    "compression.type": "lz4",
}
"""The settings of Kafka's Java producer; a job may add to them."""


@dataclass(frozen=True)
class Log:
    """Where rows are written, and how.

    `topic` and `dead` are Kafka topics. `publisher` names the job; the partition of a row's source is added to it.
    `rows_per_second` is a limit for all tasks together, and `options` are those of Kafka's Java producer.
    """

    topic: str
    kafka: str
    publisher: str | None = None
    dead: str | None = None
    rows_per_second: float | None = None
    options: Mapping[str, str] = field(default_factory=dict[str, str])


def to_sow(  # noqa: PLR0913 - one for each option
    frame: DataFrame,
    *,
    topic: str,
    key: Name | Sequence[Name],
    command: Name = PUBLISH,
    body: Name | None = None,
    expiration: Column | None = None,
    correlation: Column | None = None,
    publisher: str | None = None,
    checkpoint: str | None = None,
    once: bool = False,
    rows_per_second: float | None = None,
    kafka: str | None = None,
    options: Mapping[str, str] | None = None,
    key_header: bool = False,
) -> StreamingQuery | None:
    """Write the rows of a frame to the log `topic` as commands.

    A stream is started, and its running query returned. It needs a `checkpoint`; with `once` it ends with the
    available input. A batch is written before this returns.

    - `key`: the columns that make the key, or their names; strings, whole numbers or booleans. On a topic whose
      publishers give keys, the column that holds them; with a key generator, the columns that it reads.
    - `key_header`: put the key into the header `sow.key` too, for a topic with `key: {from: header}`.
    - `command`: `publish`, `delta_publish`, `delta` or `sow_delete`, or a column of commands.
    - `body`: a column of text; by default the JSON of all columns except those whose name begins with `_`.
    - `expiration`, `correlation`: columns; seconds, and text for subscribers. Null means none.
    - `publisher`: the job's name, which must stay the same. A stream needs it, and its rows a column `_source`. A
      batch without both is written as it comes: it should have one row per key.
    - `rows_per_second`: a limit for all tasks together.
    - `kafka`, `options`: where Kafka is (`SOWLINE_KAFKA`), and further settings of its Java producer.

    On a topic whose message type has a schema, the JSON becomes messages of that type. `topics.yaml`
    (`SOWLINE_CONFIG`) must define the topic then, and the executors need Sowline. A row that is no such message
    becomes a dead letter.

    Raises SowlineError: `bad frame`, `bad key`, `bad checkpoint`; `invalid topic` if there is no such log; `bad
    configuration` if messages on it have a schema that is not known here.
    """
    log = Log(topic, kafka or read_settings().kafka, publisher, None, rows_per_second, options or {})
    keys = key_columns(frame, key)
    _check(frame, log)
    if frame.isStreaming and checkpoint is None:
        raise SowlineError("bad frame", "expected a checkpoint for a stream, got none")
    made = partial(
        command_rows, key=key, command=command, body=body, key_header=key_header, keep=tuple(SinkColumn)
    )
    made = partial(made, expiration=expiration, correlation=correlation)
    # A window in an expression of the caller would move rows again, and a stream has no order but in its
    # micro-batches: such rows are commands before they are in order. All others are shuffled as they are.
    expressions = (command, body, expiration, correlation, *key_names(key))
    is_in_order = not (frame.isStreaming or any(isinstance(one, Column) for one in expressions))
    with connected(frame.sparkSession, log.kafka, log.options) as broker:
        broker.require(topic)
        definition = typed_definition(broker, topic, read_settings().config)
        rows = _spread_batch(frame, keys, log) if is_in_order else frame
        rows = _commands(made(rows, definition=definition), definition)
        if REFUSED in rows.columns:
            log = replace(log, dead=f"{topic}.dead" if definition is None else definition.kafka.dead)
        _check_topics(broker, log)
    if frame.isStreaming:
        assert checkpoint is not None, "it was checked"
        return _started(rows, log, checkpoint, once=once)
    _save(addressed(rows if is_in_order else _spread_batch(rows, [F.col(KEY)], log), log), log)
    return None


def _commands(rows: DataFrame, definition: TopicDefinition | None) -> DataFrame:
    """Return commands as messages of their topic; those that can't be messages become dead letters."""
    if definition is not None:
        rows = typed_rows(rows, definition)
    return with_dead_letters(rows) if REASON in rows.columns else rows


def with_dead_letters(rows: DataFrame) -> DataFrame:
    """Return commands; those that can't be messages of their topic become dead letters with their JSON."""
    own = HEADERS if HEADERS in rows.columns else f"CAST(NULL AS {HEADERS_TYPE})"
    dead = dead_headers(own, KEY, REASON, PROBLEM)
    return rows.selectExpr(
        KEY,
        VALUE,
        f"IF({REASON} IS NOT NULL, {dead}, {own}) AS {HEADERS}",
        f"{REASON} IS NOT NULL AS {REFUSED}",
        *(name for name in rows.columns if name not in (KEY, VALUE, HEADERS, REASON, PROBLEM)),
    )


def start(rows: DataFrame, log: Log, checkpoint: str, *, once: bool = False) -> StreamingQuery:
    """Start writing a stream of `key`, `value`, `headers` and `_source`, and return the running query."""
    _check(rows, log)
    with connected(rows.sparkSession, log.kafka, log.options) as broker:
        _check_topics(broker, log)
    return _started(rows, log, checkpoint, once=once)


def _started(rows: DataFrame, log: Log, checkpoint: str, *, once: bool) -> StreamingQuery:
    assert log.publisher is not None, "a stream has one"
    ordinals = Ordinals(rows.sparkSession, checkpoint)

    # Spark refuses to sort a stream, but not the batches that it is made of.
    def write_batch(batch: DataFrame, number: int) -> None:
        java: Any = batch._jdf
        is_one_task = java.queryExecution().toRdd().getNumPartitions() == 1
        _save(kafka_records(batch, log, ordinals.of_batch(number), is_one_task=is_one_task), log)

    writer = rows.writeStream.foreachBatch(write_batch).option("checkpointLocation", checkpoint)
    if once:
        writer = writer.trigger(availableNow=True)
    return writer.queryName(log.publisher).start()


def _spread_batch(rows: DataFrame, keys: Sequence[Column], log: Log) -> DataFrame:
    """Return the rows of a batch spread over the tasks that write them; files are numbered in the order of URLs."""
    if log.publisher is None:
        return _spread(rows, keys, log, {})
    files = source_files(rows, keys[0] if len(keys) == 1 else None)
    ordinals = {file: number for number, file in enumerate(files.urls)}
    # With a limit, the rows must be in exactly as many tasks as share it, so they are shuffled even if files are
    # apart.
    if files.are_apart and log.rows_per_second is None:
        return located(rows, ordinals)
    return _spread(rows, keys, log, ordinals)


def _check(rows: DataFrame, log: Log) -> None:
    if (log.publisher is None) != (SOURCE not in rows.columns):
        found = ", ".join(rows.columns) if log.publisher else f"{SOURCE} alone"
        raise SowlineError(
            "bad frame",
            f"expected a publisher together with the column {SOURCE}, which numbers rows, got {found}",
        )
    if rows.isStreaming and log.publisher is None:
        raise SowlineError(
            "bad frame", "expected a publisher for a stream, whose name stays the same, got none"
        )


def _check_topics(broker: Broker, log: Log) -> None:
    """Check that the topics exist. Spark would wait a minute for them, and then report another error."""
    for name in filter(None, (log.topic, log.dead)):
        broker.require(name)


def _save(records: DataFrame, log: Log) -> None:
    producer = {f"kafka.{name}": value for name, value in {**PRODUCER, **log.options}.items()}
    options = {**producer, "kafka.bootstrap.servers": log.kafka}
    records.write.format("kafka").options(**options).save()


def kafka_records(
    rows: DataFrame, log: Log, ordinals: Mapping[str, int], *, is_one_task: bool = False
) -> DataFrame:
    """Return commands in the form of the Kafka sink: `topic`, `key`, `value` and `headers`."""
    return addressed(_spread(rows, [F.col(KEY)], log, ordinals, is_one_task=is_one_task), log)


def _spread(
    rows: DataFrame,
    keys: Sequence[Column],
    log: Log,
    ordinals: Mapping[str, int],
    *,
    is_one_task: bool = False,
) -> DataFrame:
    """Return the rows spread over the tasks that write them; rows without numbers may be in any task."""
    tasks = None if log.rows_per_second is None else _tasks(rows)
    if log.publisher is not None:
        return in_order(rows, keys, ordinals, tasks=tasks, is_one_task=is_one_task)
    return rows if tasks is None else rows.repartition(tasks)


def _tasks(rows: DataFrame) -> int:
    """Return the number of tasks that share a limit."""
    return rows.sparkSession.sparkContext.defaultParallelism


def addressed(rows: DataFrame, log: Log) -> DataFrame:
    """Return commands with their topic and, if they have a publisher, with its name and their number.

    A dead letter has these in its key instead. The numbers are offset and part of a Kafka record, or ordinal and row
    of a file.
    """
    columns = rows.columns
    key, headers = KEY, HEADERS if HEADERS in columns else None
    if log.publisher is not None:
        publisher = f"concat({sql.text(f'{log.publisher}/')}, {SinkColumn.PARTITION})"
        sequence = _sequence(columns)
        ours = f"array({sql_header('sow.publisher', publisher)}, {sql_header('sow.sequence', sequence)})"
        numbered = ours if headers is None else f"IF({HEADERS} IS NULL, {ours}, concat({HEADERS}, {ours}))"
        if REFUSED in columns:
            key = f"IF({REFUSED}, concat({publisher}, '@', {sequence}), {KEY})"
            numbered = f"IF({REFUSED}, {HEADERS}, {numbered})"
        headers = numbered
    topic = sql.text(log.topic)
    if REFUSED in columns:
        topic = f"IF({REFUSED}, {sql.text(log.dead or '')}, {topic})"
    more = [] if headers is None else [f"{headers} AS {HEADERS}"]
    records = rows.selectExpr(f"{topic} AS topic", f"{key} AS {KEY}", VALUE, *more)
    return records if log.rows_per_second is None else paced(records, log.rows_per_second / _tasks(rows))


def _sequence(columns: Sequence[str]) -> str:
    """Return the number of a row, as text."""
    number = f"CAST({SinkColumn.NUMBER} AS STRING)"
    sequence = f"concat_ws('.', {number}, CAST({PART} AS STRING))" if PART in columns else number
    if SinkColumn.ORDINAL not in columns:
        return sequence
    of_file = f"concat(CAST({SinkColumn.ORDINAL} AS STRING), '.', {number})"
    return f"IF({SinkColumn.ORDINAL} IS NULL, {sequence}, {of_file})"
