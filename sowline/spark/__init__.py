"""Data frames in and out of the State of the World, for Spark jobs.

`to_sow` writes a frame's rows as commands, `read_sow` reads the records, `read_changes` follows them. All of it
is Spark SQL on the executors. Rows pass through Python only where `to_sow` writes messages of a type with a schema.
"""

from sowline.spark.changes import read_changes
from sowline.spark.registry import schema_from_registry
from sowline.spark.schema import schema_of
from sowline.spark.session import spark_session
from sowline.spark.sink import to_sow
from sowline.spark.source import source_of_file, source_of_kafka
from sowline.spark.sow import read_sow

__all__ = [
    "read_changes",
    "read_sow",
    "schema_from_registry",
    "schema_of",
    "source_of_file",
    "source_of_kafka",
    "spark_session",
    "to_sow",
]
