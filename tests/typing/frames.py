"""What the functions for Spark return."""

from typing import assert_type

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from sowline.codecs.schema import Schema
from sowline.spark import (
    read_changes,
    read_sow,
    schema_from_registry,
    schema_of,
    source_of_file,
    source_of_kafka,
    spark_session,
    to_sow,
)


def job(spark: SparkSession, rows: DataFrame, schema: Schema) -> None:
    """Tables, streams, columns and schemas."""
    assert_type(spark_session("job", {"spark.driver.memory": "2g"}), SparkSession)
    assert_type(read_sow(spark, "orders", schema="id STRING"), DataFrame)
    assert_type(read_changes(spark, "orders"), DataFrame)
    assert_type(to_sow(rows, topic="orders", key=["id"]), StreamingQuery | None)
    assert_type(source_of_kafka(), Column)
    assert_type(source_of_file(name="drops"), Column)
    assert_type(schema_of(schema), StructType)
    assert_type(schema_from_registry("http://127.0.0.1:8081", "orders-value"), StructType)
