"""XML messages and their JSON, for the tests of the modules that convert them."""

from typing import Any

import orjson

from sowline.codecs.schema import XML, MessagePayload, Schema
from sowline.codecs.xml import XmlCodec

ORDER = (
    b'<Order update="full"><Symbol>IBM</Symbol><Leg><Qty>1</Qty></Leg><Leg><Qty>2</Qty></Leg>'
    b'<Price ccy="USD">5</Price></Order>'
)

ORDER_JSON = {
    "Order": {
        "@update": "full",
        "Symbol": "IBM",
        "Leg": [{"Qty": "1"}, {"Qty": "2"}],
        "Price": {"@ccy": "USD", "#text": "5"},
    }
}

F = {"f": "urn:fix"}


def schema(**options: Any) -> Schema:
    """Return the options of a topic as the reader schema that the codec gets."""
    return Schema(XML, orjson.dumps(options).decode())


def read(message: bytes | str, **options: Any) -> Any:
    """Return the JSON of a message."""
    data = message.encode() if isinstance(message, str) else message
    return orjson.loads(XmlCodec(schema(**options)).read(MessagePayload(data), schema(**options)))


def write(document: Any, **options: Any) -> str:
    """Return the XML of a document."""
    return XmlCodec(schema(**options)).write(orjson.dumps(document)).decode()
