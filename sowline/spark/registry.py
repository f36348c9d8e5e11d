"""The schema of a topic's records from a schema registry that speaks Confluent's REST API."""

from contextlib import closing
from typing import Any

import orjson
from pyspark.sql.types import DataType, StructType

from sowline.codecs.schema import AVRO, JSON_SCHEMA, Schema
from sowline.config.declared_topic import JSON, MessageType
from sowline.errors import SowlineError
from sowline.registry.client import Registry
from sowline.spark.avro_schema import avro_type
from sowline.spark.json_schema import json_type
from sowline.spark.schema import schema_of

_READERS = {AVRO: avro_type, JSON_SCHEMA: json_type}


def schema_from_registry(url: str, subject: str, *, message_type: MessageType = JSON) -> StructType:
    """Return the latest schema of a subject as the Spark schema of records, for `read_sow`.

    `message_type` is that of the topic. The records of a JSON topic hold what their publishers wrote by a JSON Schema
    or an Avro schema: a timestamp of Avro is a number. Other records are canonical JSON: it is a text there, and the
    schema must be of the topic's message type.

    A user and password go into the URL. Raises SowlineError: `bad configuration` if the registry does not answer, has
    no such subject or no schema of that type, `bad schema`, and `not supported` if the schema is not a record or (of
    a JSON topic) has a part without a type in Spark.
    """
    schema = latest_schema(url, subject)
    if message_type not in (JSON, schema.type):
        raise SowlineError(
            "bad configuration",
            f"expected a schema of {message_type} for {subject}, got one of {schema.type}",
        )
    return schema_of(schema) if message_type != JSON else _object_type(subject, _type_of(subject, schema))


def latest_schema(url: str, subject: str) -> Schema:
    """Return the latest schema of a subject; raise `bad configuration` if the registry does not answer with one."""
    with closing(Registry(url)) as registry:
        try:
            return registry.latest(subject).schema
        except SowlineError as error:
            raise SowlineError("bad configuration", error.message) from error


def _type_of(subject: str, schema: Schema) -> DataType:
    if schema.type not in _READERS:
        raise SowlineError(
            "not supported",
            f"expected a schema of AVRO or JSON for {subject}, got {schema.type.upper()}: set message_type to that of"
            " the topic",
        )
    return _READERS[schema.type](_document(schema.text))


def _object_type(subject: str, found: DataType) -> StructType:
    if not isinstance(found, StructType):
        raise SowlineError(
            "not supported",
            f"expected {subject} to be of objects, got {found.simpleString()}: name another subject",
        )
    return found


def _document(text: str) -> Any:
    """Parse JSON; a primitive type of Avro may stand without its quotes."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
