"""The pipeline of the demo: facts of flights, turned into commands by Spark SQL and written to the log."""

import threading

import click
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from examples.flights.data import (
    CANCELLED,
    DEPARTED,
    FACT_COLUMNS,
    LANDED,
    LATE,
    LATE_MIN,
    MISSING,
    SCHEDULED,
)
from ingest.session import spark_session
from ingest.sink import key_text, publisher_name, to_sow
from ingest.sources import FILE, ROW, csv_rows, growing_directory
from sowline.process import stop_signal

PUBLISHER = publisher_name("flights")

KEY = ("carrier", "flight", "time_hour")
SAID = {
    SCHEDULED: ("tailnum", "origin", "dest", "distance", "sched_dep_time", "sched_arr_time"),
    LATE: (),
    DEPARTED: ("dep_time", "dep_delay"),
    LANDED: ("arr_time", "arr_delay", "air_time"),
    CANCELLED: (),
}
"""What a fact of each kind says of its flight, besides the key and the status."""
COMMANDS = {SCHEDULED: "publish", CANCELLED: "sow_delete"}
"""The command that a fact becomes; the others are a `delta_publish`."""

_TEXT = {"kind", "moment", "carrier", "time_hour", "tailnum", "origin", "dest"}
SCHEMA = ", ".join(f"{name} {'STRING' if name in _TEXT else 'INT'}" for name in FACT_COLUMNS)


def commands_of(facts: DataFrame) -> DataFrame:
    """Return the commands that rows of the feed become: `file`, `row`, `key`, `command` and `body`.

    A row of an unknown kind becomes an unknown command, so that it is refused in the open.
    """
    return facts.select(
        FILE,
        ROW,
        key_text(*(F.col(name) for name in KEY)).alias("key"),
        _by_kind({kind: F.lit(COMMANDS.get(kind, "delta_publish")) for kind in SAID}, F.col("kind")).alias(
            "command"
        ),
        _by_kind({kind: _body(kind) for kind in SAID}, F.lit(None)).alias("body"),
    )


def _by_kind(values: dict[str, Column], other: Column) -> Column:
    # Only the branch of a row's own kind is computed.
    for kind, value in values.items():
        other = F.when(F.col("kind") == kind, value).otherwise(other)
    return other


def _body(kind: str) -> Column:
    """Return the JSON that a fact of this kind says; a value that is missing is left out."""
    fields = [F.col(name) for name in (*KEY, *SAID[kind])]
    if kind != CANCELLED:
        fields.append(_status(kind).alias("status"))
    return F.to_json(F.struct(*fields))


def _status(kind: str) -> Column:
    if kind != DEPARTED:
        return F.lit(kind)
    return F.when(F.col("dep_delay") >= LATE_MIN, "departed late").otherwise("departed")


def start(
    source: str, kafka: str, topic: str, checkpoint: str, *, available_now: bool = False
) -> StreamingQuery:
    """Start the pipeline in this process's Spark session, and return its query."""
    files = growing_directory(spark_session("flights"), source)
    facts = csv_rows(files, SCHEMA, {"nullValue": MISSING})
    return to_sow(commands_of(facts), topic, kafka, PUBLISHER, checkpoint, available_now=available_now)


def run_until(stop: threading.Event, query: StreamingQuery) -> None:
    """Wait until told to stop, and stop the query; raises what the query failed with, if it does."""
    # A signal can't call Spark in the middle of a call to Spark, so it only sets the event.
    while query.isActive and not stop.wait(0.2):
        pass
    failure = query.exception()
    query.stop()
    if failure is not None:
        raise failure


@click.command()
@click.option("--source", required=True, help="The directory that the feed writes its slices to.")
@click.option("--kafka", required=True, help="The Kafka to write to, HOST:PORT.")
@click.option("--topic", default="flights", show_default=True, help="The log of the SOW topic.")
@click.option("--checkpoint", required=True, help="The directory that remembers what has been written.")
def main(source: str, kafka: str, topic: str, checkpoint: str) -> None:
    """Write the facts of a growing directory to the log until stopped; prints `running` once it does."""
    spark_session("flights")
    stop = stop_signal()  # from here on; a session that is still starting just ends
    query = start(source, kafka, topic, checkpoint)
    click.echo("running")
    run_until(stop, query)


if __name__ == "__main__":
    main()
