"""The body of a row as its topic's message type takes it: canonical JSON, in Spark SQL.

Spark's JSON cuts timestamps to milliseconds and writes decimals as numbers. Canonical JSON has both as exact texts.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sowline.codecs.schema import AVRO
from sowline.config.topics import TopicDefinition
from sowline.spark.schema import schema_of

_TIMESTAMPS = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "timeZone": "UTC"}


def canonical_body(frame: DataFrame, definition: TopicDefinition) -> Column:
    """Return the JSON of all columns except those whose name begins with `_`; null values are left out."""
    # Only Avro has decimals of its own; the canonical JSON of other message types has numbers.
    types = _types_of(schema_of(definition) if definition.message_type == AVRO else None)
    columns = [
        _canonical(frame[f"`{field.name}`"], field.dataType, types.get(field.name)).alias(field.name)
        for field in frame.schema.fields
        if not field.name.startswith("_")
    ]
    return F.to_json(F.struct(*columns))


def _types_of(type: DataType | None) -> dict[str, DataType]:
    return {field.name: field.dataType for field in type.fields} if isinstance(type, StructType) else {}


def _canonical(value: Column, type: DataType, target: DataType | None) -> Column:
    """Return a value as Spark's JSON writes it in canonical form; `target` is the type that decimals are for."""
    match type:
        case TimestampType():
            return F.when(value.isNotNull(), _timestamp_text(value))
        case TimestampNTZType():
            return F.translate(value.cast("string"), " ", "T")
        case DecimalType() if isinstance(target, DecimalType):
            return _decimal_text(value, target)
        case StructType():
            types = _types_of(target)
            parts = [
                _canonical(value[field.name], field.dataType, types.get(field.name)).alias(field.name)
                for field in type.fields
            ]
            return F.when(value.isNotNull(), F.struct(*parts)) if parts else value
        case ArrayType():
            of = target.elementType if isinstance(target, ArrayType) else None
            return F.transform(value, lambda one: _canonical(one, type.elementType, of))
        case MapType():
            of = target.valueType if isinstance(target, MapType) else None
            return F.transform_values(value, lambda _, one: _canonical(one, type.valueType, of))
    return value


def _timestamp_text(value: Column) -> Column:
    """Return the text in UTC, in whichever zone the session is, without the zeros at its end.

    A message type with fewer digits takes it if the others are zero.
    """
    found = F.regexp_extract(F.to_json(F.array(value), _TIMESTAMPS), r'^\["(.*?)\.?0*Z"\]$', 1)
    return F.concat(found, F.lit("Z"))


def _decimal_text(value: Column, target: DecimalType) -> Column:
    """Return the text with the digits of the target; with more if it would not be the same number."""
    rounded = value.try_cast(target)
    return F.when(rounded == value, rounded.cast("string")).otherwise(value.cast("string"))
