"""The schema of a topic's records from a schema registry that speaks Confluent's REST API."""

from contextlib import closing
from typing import Any

import orjson
from pyspark.sql.types import StructType

from sowline.codecs.schema import AVRO, JSON_SCHEMA, Schema
from sowline.errors import SowlineError
from sowline.registry.client import Registry
from sowline.spark.avro_schema import avro_type
from sowline.spark.json_schema import json_type

_READERS = {AVRO: avro_type, JSON_SCHEMA: json_type}


def schema_from_registry(url: str, subject: str) -> StructType:
    """Return the latest schema of a subject, a JSON Schema or an Avro schema, for `read_sow`.

    A user and password go into the URL. Raises SowlineError: `bad configuration` if the registry does not answer or
    has no such subject, `not supported` if its schema is not a record or has a part without a type in Spark.
    """
    schema = _latest(url, subject)
    if schema.type not in _READERS:
        raise SowlineError(
            "not supported", f"expected a schema of AVRO or JSON for {subject}, got {schema.type.upper()}"
        )
    found = _READERS[schema.type](_document(schema.text))
    if not isinstance(found, StructType):
        raise SowlineError(
            "not supported",
            f"expected {subject} to be of objects, got {found.simpleString()}: name another subject",
        )
    return found


def _latest(url: str, subject: str) -> Schema:
    with closing(Registry(url)) as registry:
        try:
            return registry.latest(subject).schema
        except SowlineError as error:
            raise SowlineError("bad configuration", error.message) from error


def _document(text: str) -> Any:
    """Parse JSON; a primitive type of Avro may stand without its quotes."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
