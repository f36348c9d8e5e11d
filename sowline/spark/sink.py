"""The sink: writes the rows of a data frame as commands to the log of a SOW topic.

One task writes the rows of a key, in the order of their source. Each row has the same number whenever it is written,
so a micro-batch that is written again changes nothing. Java's default partitioner puts keys into the partitions of
their owners.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

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
    SourceField,
)
from sowline.config.settings import read_settings
from sowline.errors import SowlineError
from sowline.spark.broker import Broker, connected
from sowline.spark.commands import Name, command_rows, dead_headers, header
from sowline.spark.ordinals import Ordinals
from sowline.spark.rate_limit import paced
from sowline.spark.source_files import source_files
from sowline.spark.typed_rows import typed_definition, typed_rows

PRODUCER = {
    "acks": "all",
    "enable.idempotence": "true",
    # If the writer gave up one record and wrote later ones, the record would be lost, because its number could not
    # come again.
    "delivery.timeout.ms": "2147483647",
    "linger.ms": "5",
    "batch.size": str(256 * 1024),
    "compression.type": "lz4",
}
"""The settings of Kafka's Java producer; a job may add to them."""

ROW_BITS = 40
"""Bits for the row within a file, in the number that orders rows. The other bits are for the file within a
micro-batch.
"""

LOOKED_UP_FILES_MAX = 16
"""Files whose ordinals each row looks up in a constant map, which Spark searches from its start. More are joined,
which costs each row as much as a search of some dozens.
"""


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
    options: Mapping[str, str] = field(default_factory=dict)


def to_sow(
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
    rows = command_rows(frame, key, command, body, expiration, correlation, key_header=key_header)
    _check(rows, log)
    if frame.isStreaming and checkpoint is None:
        raise SowlineError("bad frame", "expected a checkpoint for a stream, got none")
    with connected(frame.sparkSession, log.kafka, log.options) as broker:
        definition = typed_definition(broker, topic, read_settings().config)
        if definition is not None or REASON in rows.columns:
            log = replace(log, dead=f"{topic}.dead" if definition is None else definition.kafka.dead)
        _check_topics(broker, log)
    if definition is not None:
        commands = command_rows(
            frame, key, command, body, expiration, correlation, key_header=key_header, definition=definition
        )
        rows = typed_rows(commands, definition)
    if REASON in rows.columns:
        rows = with_dead_letters(rows)
    if not frame.isStreaming:
        _write(rows, log)
        return None
    assert checkpoint is not None, "it was checked"
    return _started(rows, log, checkpoint, once=once)


def with_dead_letters(rows: DataFrame) -> DataFrame:
    """Return commands, those that can't be messages of their topic as dead letters with their JSON."""
    refused = F.col(REASON).isNotNull()
    own = F.col(HEADERS) if HEADERS in rows.columns else F.lit(None).cast(HEADERS_TYPE)
    dead = dead_headers(own, F.col(KEY), F.col(REASON), F.col(PROBLEM))
    return rows.select(
        KEY,
        VALUE,
        F.when(refused, dead).otherwise(own).alias(HEADERS),
        refused.alias(REFUSED),
        *(name for name in (SOURCE, PART) if name in rows.columns),
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
        is_one_task = batch._jdf.queryExecution().toRdd().getNumPartitions() == 1
        _save(kafka_records(batch, log, ordinals.of_batch(number), is_one_task=is_one_task), log)

    writer = rows.writeStream.foreachBatch(write_batch).option("checkpointLocation", checkpoint)
    if once:
        writer = writer.trigger(availableNow=True)
    return writer.queryName(log.publisher).start()


def _write(rows: DataFrame, log: Log) -> None:
    """Write a batch of `key`, `value`, `headers` and `_source`; its files are numbered in the order of their URLs."""
    files = [] if log.publisher is None else source_files(rows)
    _save(kafka_records(rows, log, {file: number for number, file in enumerate(files)}), log)


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
        broker.partitions(name)


def _save(records: DataFrame, log: Log) -> None:
    producer = {f"kafka.{name}": value for name, value in {**PRODUCER, **log.options}.items()}
    options = {**producer, "kafka.bootstrap.servers": log.kafka}
    records.write.format("kafka").options(**options).save()


def kafka_records(
    rows: DataFrame, log: Log, ordinals: Mapping[str, int], *, is_one_task: bool = False
) -> DataFrame:
    """Return the rows as the Kafka sink takes them: `topic`, `key`, `value` and `headers`."""
    tasks = None
    if log.rows_per_second is not None:
        tasks = rows.sparkSession.sparkContext.defaultParallelism
    if log.publisher is None:
        own = [name for name in (KEY, VALUE, HEADERS) if name in rows.columns]
        records = rows.select(_topic(rows, log).alias("topic"), *own)
        records = records.repartition(tasks) if tasks else records
    else:
        found = located(rows, ordinals)
        if tasks:
            found = found.repartition(tasks, KEY)
        elif not is_one_task:
            found = found.repartition(KEY)
        # All rows of one key are in one task now, and are written in the order of their source.
        records = addressed(_in_order(found, ordinals), log)
    return paced(records, log.rows_per_second / tasks) if log.rows_per_second and tasks else records


def located(rows: DataFrame, ordinals: Mapping[str, int]) -> DataFrame:
    """Return what is written of the rows, and where each comes from: only that goes through a shuffle.

    It has no more columns than the numbers need, and none that are computed from others: a shuffle costs by the byte.
    """
    columns = [F.col(name) for name in (KEY, VALUE, HEADERS, REFUSED) if name in rows.columns]
    partition, number = F.col(SourceField.PARTITION.column), F.col(SourceField.NUMBER.column)
    columns += [partition.alias(SinkColumn.PARTITION), number.alias(SinkColumn.NUMBER)]
    if PART in rows.columns:
        columns.append(F.col(PART).cast("bigint").alias(PART))
    if not ordinals:
        return rows.select(*columns)
    # Not createDataFrame: that would need Python on the executors.
    numbers = F.from_json(F.lit(json.dumps(dict(ordinals))), "MAP<STRING, BIGINT>")
    file = F.col(SourceField.FILE.column)
    if len(ordinals) <= LOOKED_UP_FILES_MAX:
        return rows.select(*columns, _found(file, F.try_element_at(numbers, file)))
    files = rows.sparkSession.range(1).select(F.explode(numbers).alias(SinkColumn.URL, SinkColumn.ORDINAL))
    # Taken from `_source` before the join, because the join would copy the whole struct of each row.
    rows = rows.select(*columns, file.alias(SinkColumn.FILE))
    joined = rows.join(F.broadcast(files), F.col(SinkColumn.FILE) == F.col(SinkColumn.URL), "left")
    return joined.select(
        *rows.drop(SinkColumn.FILE).columns, _found(F.col(SinkColumn.FILE), F.col(SinkColumn.ORDINAL))
    )


def _found(file: Column, ordinal: Column) -> Column:
    """Return the ordinal of a file, null for a row without one; a file that has none ends the job."""
    known = F.coalesce(ordinal, F.raise_error(F.concat(F.lit("no number for "), file)))
    return F.when(file.isNotNull(), known).alias(SinkColumn.ORDINAL)


def _in_order(rows: DataFrame, ordinals: Mapping[str, int]) -> DataFrame:
    """Sort the rows of each task by one number, which Spark sorts fastest, and by the part of a row."""
    order = F.col(SinkColumn.NUMBER)
    if ordinals:
        ordinal = F.coalesce(F.col(SinkColumn.ORDINAL) - F.lit(min(ordinals.values())), F.lit(0))
        order = F.shiftleft(ordinal, ROW_BITS) + order
    return rows.sortWithinPartitions(order, *([F.col(PART)] if PART in rows.columns else []))


def addressed(rows: DataFrame, log: Log) -> DataFrame:
    """Add publisher and number to the commands; a dead letter has them in its key instead.

    The numbers are offset and part of a Kafka record, or ordinal and row of a file.
    """
    partition = F.concat(F.lit(f"{log.publisher}/"), F.col(SinkColumn.PARTITION))
    sequence = F.col(SinkColumn.NUMBER).cast("string")
    if PART in rows.columns:
        sequence = F.concat_ws(".", SinkColumn.NUMBER, PART)
    if SinkColumn.ORDINAL in rows.columns:
        of_file = F.concat(SinkColumn.ORDINAL, F.lit("."), SinkColumn.NUMBER)
        sequence = F.when(F.col(SinkColumn.ORDINAL).isNotNull(), of_file).otherwise(sequence)
    headers = ours = F.array(header("sow.publisher", partition), header("sow.sequence", sequence))
    if HEADERS in rows.columns:
        headers = F.when(F.col(HEADERS).isNull(), ours).otherwise(F.concat(HEADERS, ours))
    key = F.col(KEY)
    if REFUSED in rows.columns:
        key = F.when(F.col(REFUSED), F.concat(partition, F.lit("@"), sequence)).otherwise(key)
        headers = F.when(F.col(REFUSED), F.col(HEADERS)).otherwise(headers)
    return rows.select(
        _topic(rows, log).alias("topic"), key.alias(KEY), VALUE, headers.cast(HEADERS_TYPE).alias(HEADERS)
    )


def _topic(rows: DataFrame, log: Log) -> Column:
    """Return the Kafka topic of each row: that of the dead letters for one that is refused."""
    if REFUSED not in rows.columns:
        return F.lit(log.topic)
    return F.when(F.col(REFUSED), F.lit(log.dead)).otherwise(F.lit(log.topic))
