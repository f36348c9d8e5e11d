"""The sink: rows of a data frame become commands on the log of a SOW topic.

The rows have these columns: `key` (the key text), `body` (JSON, or null), `command` (`publish`,
`delta_publish`, `sow_delete`), and `file` and `row`, which number a row in its source. All of it is computed in
Spark SQL, and Java's default partitioner places the keys where their owners expect them.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from ingest.sources import FILE, ROW

PRODUCER = {
    "kafka.acks": "all",
    "kafka.enable.idempotence": "true",
    # A record that is given up while later ones are written would be lost: its number could not come again.
    "kafka.delivery.timeout.ms": "2147483647",
    "kafka.linger.ms": "5",
    "kafka.batch.size": str(256 * 1024),
    "kafka.compression.type": "lz4",
}
"""The producer's settings; a pipeline may add to them (`kafka.security.protocol`, …)."""


def key_text(*fields: Column) -> Column:
    """Return the key text of a record's key fields: the field itself, or a JSON array of several as strings."""
    texts = [field.cast("string") for field in fields]
    return texts[0] if len(texts) == 1 else F.to_json(F.array(*texts))


def to_sow(
    commands: DataFrame,
    topic: str,
    kafka: str,
    publisher: str,
    checkpoint: str,
    *,
    available_now: bool = False,
    producer: Mapping[str, str] | None = None,
) -> StreamingQuery:
    """Start writing a stream of rows to the log, and return the running query.

    `publisher` names the pipeline and the partition of its source (`publisher_name`); it must stay the same
    for as long as the checkpoint is used. With `available_now` the query ends with the input there is.
    """

    # Spark refuses to sort a stream, but not the batches that it is made of.
    def write_batch(batch: DataFrame, _number: int) -> None:
        write_commands(batch, topic, kafka, publisher, producer=producer)

    writer = commands.writeStream.foreachBatch(write_batch).option("checkpointLocation", checkpoint)
    if available_now:
        writer = writer.trigger(availableNow=True)
    return writer.queryName(publisher).start()


def write_commands(
    commands: DataFrame, topic: str, kafka: str, publisher: str, *, producer: Mapping[str, str] | None = None
) -> None:
    """Write the rows of a batch to the log, those of one key by one task and in the order of their source."""
    settings = {**PRODUCER, **(producer or {}), "kafka.bootstrap.servers": kafka, "topic": topic}
    kafka_records(in_order(commands), publisher).write.format("kafka").options(**settings).save()


def publisher_name(pipeline: str, source_partition: int = 0) -> str:
    """Return the publisher of a pipeline's rows from one partition of its source; a directory is one."""
    return f"{pipeline}/{source_partition}"


def in_order(commands: DataFrame) -> DataFrame:
    """Return the rows so that all of one key are in one task, in the order of their source."""
    return commands.repartition("key").sortWithinPartitions(FILE, ROW)


def kafka_records(commands: DataFrame, publisher: str) -> DataFrame:
    """Return the rows as the Kafka sink takes them: `key`, `value` and `headers`."""
    headers = F.array(
        _header("sow.command", F.col("command")),
        _header("sow.publisher", F.lit(publisher)),
        _header("sow.sequence", F.concat_ws(".", FILE, ROW)),
    )
    return commands.select("key", F.col("body").alias("value"), headers.alias("headers"))


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))
