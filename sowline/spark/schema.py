"""The schema of a topic's records: given, that of the topic's message type, or inferred from some of the newest."""

import json
from typing import Any, cast

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, VariantType

from sowline.codecs.codec import codec_of
from sowline.codecs.composite.global_fields import PARTS_FIELD
from sowline.codecs.schema import COMPOSITE_GLOBAL, Schema, is_format
from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.spark.changes_topic import ChangesTopic
from sowline.spark.events import is_change
from sowline.spark.json_schema import canonical_type

SAMPLE = 1000
"""The number of records from which a schema is inferred."""

CORRUPT = "_corrupt_record"
"""The field that gets the text of a body that does not fit the schema; the name is Spark's."""


def schema_of(of: TopicDefinition | Schema) -> StructType:
    """Return the Spark schema of the records of a topic whose message type has schemas, or of a reader schema.

    The types are those of canonical JSON; a part that has no type in Spark is a STRING with its JSON. Raise
    `not supported` for a message type without schemas, and if records have no fields; `bad schema`, or `bad
    configuration` without the library of the message type.
    """
    reader = of.reader if isinstance(of, TopicDefinition) else of
    if reader is None or is_format(reader.type):
        type = "json" if reader is None else reader.type
        raise SowlineError(
            "not supported", f"expected a message type that has schemas, got {type}: give a schema"
        )
    found = _record_type(reader)
    if found is None:
        raise SowlineError(
            "not supported", "expected a schema that names the fields of records, got none: give a schema"
        )
    return found


def _record_type(reader: Schema) -> StructType | None:
    found = canonical_type(codec_of(reader).described(), reader)
    return found if isinstance(found, StructType) else None


def fields_of(spark: SparkSession, given: str | StructType | None, changes: ChangesTopic) -> StructType:
    """Return the given schema, else that of the topic's newest reader schema, else one inferred from records.

    Raise `not supported` if it must be inferred and there are no records yet.
    """
    if isinstance(given, StructType):
        return given
    if given is not None:
        return cast("StructType", StructType.fromDDL(given))
    reader = changes.reader_schema()
    found = None if reader is None or is_format(reader.type) else _record_type(reader)
    if found is not None:
        return found
    each = -(-SAMPLE // changes.partitions)
    newest = {p: max(changes.starts[p], end - each) for p, end in changes.ends.items()}
    # The newest events may be deletions only; then the whole topic is read.
    inferred = _inferred(spark, changes, newest) or _inferred(spark, changes, changes.starts)
    if inferred is None:
        raise SowlineError(
            "not supported",
            f"expected records in {changes.name} to infer a schema from, got none: give a schema",
        )
    return inferred if reader is None or reader.type != COMPOSITE_GLOBAL else _with_parts(inferred)


def _with_parts(inferred: StructType) -> StructType:
    """Return the schema with the parts of composite messages as they are: an array of texts and arrays."""
    fields = [field for field in inferred.fields if field.name != PARTS_FIELD]
    return StructType([*fields, StructField(PARTS_FIELD, VariantType())])


def _inferred(spark: SparkSession, changes: ChangesTopic, starts: dict[int, int]) -> StructType | None:
    events = changes.events(starts, changes.ends)
    bodies = events.where(is_change() & F.col("body").isNotNull()).select("body").limit(SAMPLE)
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    texts = getattr(bodies._jdf, "as")(jvm.org.apache.spark.sql.Encoders.STRING())
    schema = session.read().json(texts).schema()
    found = StructType.fromJson(json.loads(schema.json()))
    return found if found.fields else None
