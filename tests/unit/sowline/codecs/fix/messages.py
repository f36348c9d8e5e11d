"""FIX messages, for the tests of the modules that convert them."""

from typing import Any

import orjson
import pytest

from sowline.codecs.fix import FixCodec
from sowline.codecs.schema import FIX, MessagePayload, Schema
from sowline.errors import SowlineError

SCHEMA = Schema(FIX, "{}")


def schema_with(**options: Any) -> Schema:
    """Return the options of a topic as the reader schema that the codec gets."""
    return Schema(FIX, orjson.dumps(options, option=orjson.OPT_SORT_KEYS).decode())


def with_options(**options: Any) -> FixCodec:
    """Return the codec of a topic with options."""
    return FixCodec(schema_with(**options))


PIPES = with_options(separator="|")


def read(message: str | bytes, codec: FixCodec = PIPES) -> dict[str, Any]:
    """Return the JSON of a message."""
    data = message.encode() if isinstance(message, str) else message
    document: dict[str, Any] = orjson.loads(codec.read(MessagePayload(data), SCHEMA))
    return document


def written(document: Any, codec: FixCodec = PIPES) -> str:
    """Return the message of a document."""
    return codec.write(orjson.dumps(document)).decode()


def framed(fields: str) -> str:
    """Return a message with BodyLength and CheckSum; `fields` has the others, and a separator after each."""
    head, _, rest = fields.partition("|")
    message = f"{head}|9={len(rest.encode())}|{rest}"
    return f"{message}10={sum(message.encode()) % 256:03}|"


def refusal(message: str | bytes, codec: FixCodec = PIPES) -> str:
    """Return the sentence of a message that is refused."""
    with pytest.raises(SowlineError) as caught:
        read(message, codec)
    assert caught.value.reason == "bad message"
    return caught.value.message


def refusal_of(document: Any, codec: FixCodec = PIPES) -> str:
    """Return the sentence of a document that can be neither written nor stored."""
    with pytest.raises(SowlineError) as caught:
        written(document, codec)
    assert caught.value.reason == "bad message"
    with pytest.raises(SowlineError, match="expected"):
        codec.completed(orjson.dumps(document))
    return caught.value.message


ORDER = "8=FIX.4.4|35=D|49=DESK|56=BROKER|34=12|52=20261126-10:00:00|11=1|55=IBM|54=1|38=100|44=1.50|"
