"""The JSON Schema of XML as JSON."""

from typing import Any

import jsonschema

from sowline.codecs.xml import XmlCodec
from tests.unit.sowline.codecs.xml.messages import ORDER, read, schema


def test_records_are_what_their_schema_describes() -> None:
    """The JSON Schema is of all XML: texts, arrays and objects of nodes."""
    validator = jsonschema.Draft202012Validator(XmlCodec(schema()).described())
    for message in (ORDER, b"<!--x--><a>1<?b?>2<c/><c>3</c></a>", b"<a/>"):
        validator.validate(read(message))
    wrongs: list[Any] = [
        {},
        {"a": 1},
        {"a": [""]},
        {"a": {"@b": {}}},
        {"a": {"b": None}},
        {"#text": 1, "a": ""},
    ]
    for wrong in wrongs:
        assert not validator.is_valid(wrong)
