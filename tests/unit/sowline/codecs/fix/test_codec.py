"""The codec of FIX: messages as JSON by tag, and deltas."""

import jsonschema_rs
import orjson
import pytest

from sowline.codecs.fix import FixCodec, NvfixCodec
from sowline.codecs.schema import FIX, NVFIX, MessagePayload, Schema
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.fix.messages import ORDER, PIPES, SCHEMA, framed, read, written

CODEC = FixCodec(SCHEMA)


def test_an_order_is_json_by_tag() -> None:
    """BodyLength and CheckSum are not in the JSON, and right again in what is written. Values keep their text."""
    message = framed(ORDER)
    assert read(message) == {
        "8": "FIX.4.4", "35": "D", "49": "DESK", "56": "BROKER", "34": "12", "52": "20261126-10:00:00", "11": "1",
        "55": "IBM", "54": "1", "38": "100", "44": "1.50",
    }  # fmt: skip
    assert written(read(message)) == message


def test_a_message_of_the_standard_has_soh() -> None:
    """The default separator is that of the standard; the example has the length and the sum that it prints."""
    message = (
        "8=FIX.4.2|9=178|35=8|49=PHLX|56=PERS|52=20071123-05:30:00.000|11=ATOMNOCCC9990900|20=3|150=E|39=E|55=MSFT|"
        "167=CS|54=1|38=15|40=2|44=15|58=PHLX EQUITY TESTING|59=0|47=C|32=0|31=0|151=15|14=0|6=0|10=128|"
    ).replace("|", "\x01")
    document = read(message, CODEC)
    assert document["58"] == "PHLX EQUITY TESTING"
    assert written(document, CODEC) == message


def test_a_message_without_a_header_has_none() -> None:
    """The chapters' topic has the keys /55 and /109: its messages need nothing else."""
    assert read("55=IBM|109=C1|38=100") == {"55": "IBM", "109": "C1", "38": "100"}
    assert written({"55": "IBM", "109": "C1", "38": 100}) == "55=IBM|109=C1|38=100|"


def test_an_empty_value_is_kept() -> None:
    """It is NULL for filters, but the text comes back."""
    assert read("55=|11=1|") == {"55": "", "11": "1"}
    assert written({"55": "", "11": None}) == "55=|11=|"


def test_header_and_trailer_have_their_position() -> None:
    """A record to which a delta gave its header is written with it at the front."""
    merged = PIPES.merged(b'{"11":"1","55":"IBM","89":"s"}', b'{"8":"FIX.4.4","35":"G","49":"DESK","38":"5"}')
    message = PIPES.write(merged).decode()
    assert message == framed("8=FIX.4.4|35=G|49=DESK|11=1|55=IBM|38=5|93=1|89=s|")
    assert PIPES.completed(merged) == PIPES.read(MessagePayload(message.encode()), SCHEMA)
    assert list(read(framed("8=FIX.4.4|35=D|11=1|49=DESK|"))) == ["8", "35", "49", "11"]


def test_a_delta_changes_the_fields_that_it_has() -> None:
    """A group is replaced as a whole. Ordinary messages are deltas, too: their header replaces the earlier one."""
    body = PIPES.read(MessagePayload(framed(ORDER + "453=1|448=A|").encode()), SCHEMA)
    delta = PIPES.read_delta(MessagePayload(b"11=1|38=5|55=|453=1|448=B|"), SCHEMA, None)
    merged = orjson.loads(PIPES.merged(body, delta))
    assert merged == orjson.loads(body) | {"38": "5", "55": "", "453": [{"448": "B"}]}
    change = framed("8=FIX.4.4|35=G|34=13|11=1|38=6|")
    whole = PIPES.merged(body, PIPES.read_delta(MessagePayload(change.encode()), SCHEMA, None))
    assert PIPES.write(whole).decode() == framed(
        ORDER.replace("35=D", "35=G").replace("34=12", "34=13").replace("38=100", "38=6") + "453=1|448=A|"
    )


def test_a_delta_has_no_header_of_fields() -> None:
    """The message itself shows what it changes."""
    with pytest.raises(SowlineError, match=r"expected no sow\.fields") as caught:
        PIPES.read_delta(MessagePayload(b"11=1|"), SCHEMA, ["/11"])
    assert caught.value.reason == "bad header"


def test_nvfix_has_names_and_no_frame() -> None:
    """A tag of FIX is a name like any other, and nothing is computed."""
    codec = NvfixCodec(Schema(NVFIX, '{"separator":"|"}'))
    body = codec.read(MessagePayload(b"Symbol=IBM|8=FIX|10=x|"), codec.reader)
    assert body == b'{"Symbol":"IBM","8":"FIX","10":"x"}'
    assert codec.write(body) == b"Symbol=IBM|8=FIX|10=x|"
    assert codec.completed(b'{"qty":5}') == b'{"qty":"5"}'
    assert codec.upgraded(b'{"qty":5}') == b'{"qty":5}'


def test_the_names_of_the_options_are_those_of_json() -> None:
    """Records that were stored by tag get the names, and are described by them."""
    named = Schema(FIX, '{"separator":"|","names":{"8":"Begin","35":"MsgType","55":"Symbol"}}')
    codec = FixCodec(named)
    message = framed("8=FIX.4.4|35=D|55=IBM|11=1|").encode()
    body = codec.read(MessagePayload(message), named)
    assert body == b'{"Begin":"FIX.4.4","MsgType":"D","Symbol":"IBM","11":"1"}'
    assert codec.write(body) == message
    assert codec.upgraded(b'{"55":"IBM"}') == b'{"Symbol":"IBM"}'
    assert jsonschema_rs.validator_for(codec.described()).is_valid(orjson.loads(body))


def test_records_keep_their_separator() -> None:
    """Options that change what records mean are refused."""
    PIPES.check_reads(PIPES.reader)
    with pytest.raises(SowlineError, match="expected the separator as in the options") as caught:
        PIPES.check_reads(SCHEMA)
    assert caught.value.reason == "incompatible schema"
