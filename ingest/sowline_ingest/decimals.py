"""Numbers that don't fit a DECIMAL: Spark silently rounds them when it reads text."""

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructField, StructType

from sowline.spark.row_json import row_json

_DIGITS_MAX: Final = 38

OfDecimal = Callable[[DecimalType], DecimalType]


def exact(fields: StructType, parse: Callable[[StructType], Column]) -> Column:
    """Return a struct of these fields, read by `parse`; null if a DECIMAL in it would be rounded.

    The numbers are read with more decimals first. A DECIMAL of 38 digits has no room for more: it is rounded.
    """
    wide = {one.name: _nullable(one.dataType, _wider) for one in fields.fields}
    rounding = [one for one in fields.fields if wide[one.name] != _nullable(one.dataType, _same)]
    if not rounding:
        return parse(fields)
    parsed = parse(StructType([StructField(name, type) for name, type in wide.items()]))
    # A plain cast of a number that does not fit would end the query. Here it is null, and only its row is refused.
    narrow = parsed.try_cast(_nullable(fields, _same))
    # Compared as JSON, because Spark compares no maps, and a map may hold a decimal (test_decimals).
    read = row_json(parsed[one.name].alias(one.name) for one in rounding)
    kept = row_json(narrow[one.name].cast(wide[one.name]).alias(one.name) for one in rounding)
    return F.when(read == kept, narrow)


def _same(type: DecimalType) -> DecimalType:
    return type


def _wider(type: DecimalType) -> DecimalType:
    """Return the type with the most decimals that has as many digits before the point."""
    return DecimalType(_DIGITS_MAX, _DIGITS_MAX - (type.precision - type.scale))


def _nullable(type: DataType, of_decimal: OfDecimal) -> DataType:
    """Return a type with other decimals, in which everything may be null, as in the types that Spark reads."""
    match type:
        case DecimalType():
            return of_decimal(type)
        case ArrayType():
            return ArrayType(_nullable(type.elementType, of_decimal))
        case MapType():
            return MapType(type.keyType, _nullable(type.valueType, of_decimal))
        case StructType():
            return StructType(
                [StructField(one.name, _nullable(one.dataType, of_decimal)) for one in type.fields]
            )
    return type
