"""Deltas in JSON: XML shows what most of them change, and the others are refused."""

from typing import Any

import orjson
import pytest

from sowline.codecs.xml import XmlCodec
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.xml.messages import schema


@pytest.mark.parametrize(
    ("delta", "message"),
    [
        ({"O": {"@id": 1, "P": 6}}, '<O id="1"><P>6</P></O>'),
        ({"O": {"P": {"#text": 6}}}, "<O><P>6</P></O>"),
        ({"O": {"P": None}}, "<O><P/></O>"),
        ({"O": {"L": [1, {"Q": 2}]}}, "<O><L>1</L><L><Q>2</Q></L></O>"),
    ],
)
def test_deltas_are_written(delta: Any, message: str) -> None:
    """As XML that changes the same."""
    assert XmlCodec(schema()).write_delta(orjson.dumps(delta)) == (message.encode(), ())


@pytest.mark.parametrize(
    "delta",
    [
        {"O": {"L": []}},
        {"O": {"L": [1]}},
        {"O": {"L": {}}},
        {"O": {"L": {"@a": 1, "#text": ""}}},
        {"O": {"L": {"#content": ["a", "b"], "a": 1}}},
        {"O": {"L": {"#text": [1, 2]}}},
        {"O": {"#text": [1, 2, 3], "b": 4, "#content": ["#text", "#text", "b", "#text"]}},
        {"O": {"L": [{"M": [1]}, 2]}},
    ],
)
def test_deltas_that_xml_can_not_show_are_refused(delta: Any) -> None:
    """What is read would change something else."""
    with pytest.raises(SowlineError, match="expected a delta that XML can show") as refused:
        XmlCodec(schema()).write_delta(orjson.dumps(delta))
    assert refused.value.reason == "bad message"


def test_an_array_of_one_is_shown_in_lists() -> None:
    """Because it is read as an array."""
    delta = orjson.dumps({"O": {"L": [1]}})
    assert XmlCodec(schema(lists=["/O/L"])).write_delta(delta) == (b"<O><L>1</L></O>", ())
