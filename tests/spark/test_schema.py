"""The schema of records: given, or inferred."""

from decimal import Decimal
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructField, StructType

from sowline.spark import read_sow
from sowline.spark.avro_schema import avro_type
from tests.spark.changes import Story, Written


def test_inferred(spark: SparkSession, kafka: str, prefix: str) -> None:
    """Without a schema, some of the newest records tell it; what is deleted or moves a partition on does not."""
    written = Written(kafka, f"{prefix}orders")
    story = Story()
    story.change(0, "a", b'{"id":"a","n":1,"to":{"city":"Rome","lines":[1]}}')
    story.change(1, "b", b'{"id":"b","n":2.5,"open":true}')
    story.change(2, "c", b'{"id":"c","gone":1}')
    story.change(3, "c", None)
    written.write(*story.events, *(story.progress(offset) for offset in range(4, 1100)))
    frame = read_sow(spark, written.log, kafka=kafka).drop("_sow_key", "_updated_at", "_time")
    assert frame.schema.simpleString() == (
        "struct<gone:bigint,id:string,n:double,open:boolean,to:struct<city:string,lines:array<bigint>>>"
    )
    assert frame.orderBy("id").select("id", "n", "to.city").collect() == [
        Row(id="a", n=1.0, city="Rome"),
        Row(id="b", n=2.5, city=None),
    ]


def test_numbers(spark: SparkSession, kafka: str, prefix: str) -> None:
    """A number that its type can't hold is null, and nothing else of its record is; decimals are rounded."""
    written = Written(kafka, f"{prefix}orders")
    story = Story()
    big = 2**63
    story.change(0, "a", b'{"id":"a","whole":%d,"exact":%d,"near":%d,"price":12.345}' % (big, big, big))
    story.change(1, "b", b'{"id":"b","whole":7.0,"exact":1.5,"near":1.5,"price":123456789}')
    written.write(*story.events)
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
    fields: Any = StructType.fromDDL(
        "id STRING, whole BIGINT, exact DECIMAL(38,0), near DOUBLE, _corrupt_record STRING"
    )
    schema = StructType([*fields.fields, StructField("price", avro_type(decimal))])
    first, second = read_sow(spark, written.log, schema=schema, kafka=kafka).orderBy("id").collect()
    assert (first.whole, first.exact, first.near) == (None, Decimal(big), float(big))
    assert first.price == Decimal("12.35")
    assert first._corrupt_record is not None
    assert (second.whole, second.exact, second.near, second.price) == (None, Decimal(2), 1.5, None)
