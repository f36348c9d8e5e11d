"""The schema of a topic's records from a schema registry that speaks Confluent's REST API."""

from typing import Any
from urllib.parse import quote

import httpx2
import orjson
from pyspark.sql.types import StructType

from sowline.errors import SowlineError
from sowline.spark.avro_schema import avro_type
from sowline.spark.json_schema import json_type

_READERS = {"AVRO": avro_type, "JSON": json_type}
_TIMEOUT_SECONDS = 30


def schema_from_registry(url: str, subject: str) -> StructType:
    """Return the latest schema of a subject, a JSON Schema or an Avro schema, for `read_sow`.

    A user and password go into the URL. Raises SowlineError: `bad configuration` if the registry does not answer or
    has no such subject, `not supported` if its schema is not a record or has a part without a type in Spark.
    """
    answer = _latest(f"{url.rstrip('/')}/subjects/{quote(subject, safe='')}/versions/latest", subject)
    kind = answer.get("schemaType", "AVRO")
    if kind not in _READERS:
        raise SowlineError("not supported", f"expected a schema of AVRO or JSON for {subject}, got {kind}")
    found = _READERS[kind](_document(answer["schema"]))
    if not isinstance(found, StructType):
        raise SowlineError(
            "not supported",
            f"expected {subject} to be of objects, got {found.simpleString()}: name another subject",
        )
    return found


def _latest(url: str, subject: str) -> dict[str, Any]:
    try:
        answer = httpx2.get(url, timeout=_TIMEOUT_SECONDS)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise SowlineError(
            "bad configuration", f"expected a schema registry to answer, but: {error}"
        ) from error
    document = _document(answer.content)
    if answer.status_code != 200 or not isinstance(document, dict) or "schema" not in document:
        raise SowlineError(
            "bad configuration",
            f"expected the latest schema of {subject}, but the registry answered {answer.status_code}:"
            f" {answer.text[:200]}",
        )
    return document


def _document(text: str | bytes) -> Any:
    """Parse JSON; a primitive type of Avro may stand without its quotes."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text if isinstance(text, str) else text.decode(errors="replace")
