"""The codec of XML messages."""

import orjson
import pytest

from sowline.codecs.schema import MessagePayload
from sowline.codecs.xml import XmlCodec
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.xml.messages import ORDER, read, schema


def test_a_delta_takes_no_paths() -> None:
    """XML itself shows what a delta changes."""
    with pytest.raises(SowlineError, match=r"expected no sow\.fields") as refused:
        XmlCodec(schema()).read_delta(MessagePayload(ORDER), schema(), ["/Order/Symbol"])
    assert refused.value.reason == "bad header"


@pytest.mark.parametrize(("earlier", "now"), [([], ["/O/L"]), (["/O/L"], [])])
def test_records_are_upgraded_to_other_lists(earlier: list[str], now: list[str]) -> None:
    """They are as if their message was read now."""
    message = "<O><L><Q>1</Q></L></O>"
    body = orjson.dumps(read(message, lists=earlier))
    assert orjson.loads(XmlCodec(schema(lists=now)).upgraded(body)) == read(message, lists=now)
