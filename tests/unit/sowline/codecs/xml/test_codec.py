"""The codec of XML messages: what it does with records and deltas, whose details the other modules decide."""

import orjson
import pytest

from sowline.codecs.schema import MessagePayload
from sowline.codecs.xml import XmlCodec
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.xml.messages import ORDER, F, read, schema


def test_a_record_is_read_changed_and_written() -> None:
    """A delta changes what it has. The result is canonical again, and is written in the order of its members."""
    codec = XmlCodec(schema())
    body = codec.read(MessagePayload(b'<O id="1"><P c="USD">5</P><Q/></O>'), schema())
    delta = codec.read_delta(MessagePayload(b"<O><P>6</P><R>7</R></O>"), schema(), None)
    after = codec.completed(codec.merged(body, delta))
    assert after == b'{"O":{"@id":"1","P":{"@c":"USD","#text":"6"},"Q":"","R":"7"}}'
    assert codec.write(after) == b'<O id="1"><P c="USD">6</P><Q/><R>7</R></O>'


def test_a_delta_in_json_is_written_without_paths() -> None:
    """The XML shows what it changes. What XML can't show is refused."""
    codec = XmlCodec(schema())
    assert codec.write_delta(b'{"O":{"P":6}}') == (b"<O><P>6</P></O>", ())
    with pytest.raises(SowlineError, match="expected a delta that XML can show") as refused:
        codec.write_delta(b'{"O":{"P":[]}}')
    assert refused.value.reason == "bad message"


@pytest.mark.parametrize("body", [b"[]", b"{", b"5"])
def test_json_that_is_no_object_is_refused(body: bytes) -> None:
    """As a record and as a delta."""
    codec = XmlCodec(schema())
    for convert in (codec.write, codec.write_delta, codec.completed):
        with pytest.raises(SowlineError, match="expected a JSON object") as refused:
            convert(body)
        assert refused.value.reason == "bad message"


def test_options_decide_what_is_read() -> None:
    """Prefixes that records have must keep their namespaces; one description fits all options."""
    plain, prefixed = XmlCodec(schema()), XmlCodec(schema(namespaces=F))
    prefixed.check_reads(schema())
    with pytest.raises(SowlineError, match="expected the prefix 'f' to stay 'urn:fix'") as refused:
        plain.check_reads(schema(namespaces=F))
    assert refused.value.reason == "incompatible schema"
    assert plain.described() == prefixed.described()


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
