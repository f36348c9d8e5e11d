"""The body of a row for its topic's message type: canonical JSON, in Spark SQL.

Spark's JSON writes decimals as numbers. In canonical JSON, timestamps are texts without trailing zeros. Decimals are
texts too, if the message type has decimals.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sowline.codecs.schema import AVRO, FIX, NVFIX, XML
from sowline.config.topic_definition import TopicDefinition
from sowline.spark.row_json import FORMATS
from sowline.spark.schema import schema_of

_TEXTUAL = (FIX, NVFIX, XML)
"""The message types whose values are texts. As a number, a decimal would lose digits."""


def canonical_body(frame: DataFrame, definition: TopicDefinition) -> Column:
    """Return the JSON of all columns except those whose name begins with `_`; null values are left out."""
    target = _target(definition)
    columns = [
        _canonical(frame[f"`{field.name}`"], field.dataType, _part(target, field.name)).alias(field.name)
        for field in frame.schema.fields
        if not field.name.startswith("_")
    ]
    return F.to_json(F.struct(*columns))


def _target(definition: TopicDefinition) -> DataType | None:
    """Return the type that a record's decimals are converted to; None if they stay numbers."""
    if definition.message_type == AVRO:
        return schema_of(definition)
    if definition.message_type in _TEXTUAL:
        return StringType()
    options = definition.declared.message_format
    if options is None or not options.parts:
        return None
    parts = [(str(number), part.type) for number, part in enumerate(options.parts)]
    return StructType([StructField(name, StringType()) for name, type in parts if type in _TEXTUAL])


def _of_text(type: DataType | None) -> DataType | None:
    return type if isinstance(type, StringType) else None


def _part(type: DataType | None, name: str) -> DataType | None:
    """Return the target of a field: all parts of a text are texts."""
    if not isinstance(type, StructType):
        return _of_text(type)
    return next((field.dataType for field in type.fields if field.name == name), None)


def _canonical(value: Column, type: DataType, target: DataType | None) -> Column:
    """Return a value that Spark's JSON writes in canonical form; `target` is the type that decimals convert to."""
    match type:
        case TimestampType():
            # The expression would make the text `Z` of a null.
            return F.when(value.isNotNull(), _timestamp_text(value))
        case TimestampNTZType():
            return F.translate(value.cast("string"), " ", "T")
        case DecimalType() if isinstance(target, DecimalType):
            return _decimal_text(value, target)
        case DecimalType() if isinstance(target, StringType):
            return value.cast("string")
        case StructType():
            parts = [
                _canonical(value[field.name], field.dataType, _part(target, field.name)).alias(field.name)
                for field in type.fields
            ]
            # Made of the fields of a null, the struct would be an object: the record would get `{}` for no value.
            return F.when(value.isNotNull(), F.struct(*parts)) if parts else value
        case ArrayType():
            of = target.elementType if isinstance(target, ArrayType) else _of_text(target)
            return F.transform(value, lambda one: _canonical(one, type.elementType, of))
        case MapType():
            of = target.valueType if isinstance(target, MapType) else _of_text(target)
            return F.transform_values(value, lambda _, one: _canonical(one, type.valueType, of))
        case _:
            return value


def _timestamp_text(value: Column) -> Column:
    """Return the text in UTC, regardless of the session's zone, without trailing zeros.

    So a message type with fewer digits accepts it if the others are zero.
    """
    found = F.regexp_extract(F.to_json(F.array(value), FORMATS), r'^\["(.*?)\.?0*Z"\]$', 1)
    return F.concat(found, F.lit("Z"))


def _decimal_text(value: Column, target: DecimalType) -> Column:
    """Return the text with the digits of the target; with more if it would not be the same number."""
    rounded = value.try_cast(target)
    return F.when(rounded == value, rounded.cast("string")).otherwise(value.cast("string"))
