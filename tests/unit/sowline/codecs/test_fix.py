"""FIX messages as JSON: what is kept, computed and refused."""

from typing import Any

import orjson
import pytest

from sowline.codecs.fix import FixCodec
from sowline.codecs.schema import FIX, MessagePayload, Schema
from sowline.errors import SowlineError

SCHEMA = Schema(FIX, "{}")
CODEC = FixCodec(SCHEMA)


def _schema_with(**options: Any) -> Schema:
    return Schema(FIX, orjson.dumps(options, option=orjson.OPT_SORT_KEYS).decode())


def _with_options(**options: Any) -> FixCodec:
    return FixCodec(_schema_with(**options))


PIPES = _with_options(separator="|")


def _read(message: str | bytes, codec: FixCodec = PIPES) -> dict[str, Any]:
    data = message.encode() if isinstance(message, str) else message
    document: dict[str, Any] = orjson.loads(codec.read(MessagePayload(data), SCHEMA))
    return document


def _written(document: Any, codec: FixCodec = PIPES) -> str:
    return codec.write(orjson.dumps(document)).decode()


def _framed(fields: str) -> str:
    """Return a message with BodyLength and CheckSum; `fields` has the others, and a separator after each."""
    head, _, rest = fields.partition("|")
    message = f"{head}|9={len(rest.encode())}|{rest}"
    return f"{message}10={sum(message.encode()) % 256:03}|"


def _refusal(message: str | bytes, codec: FixCodec = PIPES) -> str:
    with pytest.raises(SowlineError) as caught:
        _read(message, codec)
    assert caught.value.reason == "bad message"
    return caught.value.message


def _refusal_of(document: Any, codec: FixCodec = PIPES) -> str:
    with pytest.raises(SowlineError) as caught:
        _written(document, codec)
    assert caught.value.reason == "bad message"
    with pytest.raises(SowlineError, match="expected"):
        codec.completed(orjson.dumps(document))
    return caught.value.message


ORDER = "8=FIX.4.4|35=D|49=DESK|56=BROKER|34=12|52=20261126-10:00:00|11=1|55=IBM|54=1|38=100|44=1.50|"


def test_an_order_is_json_by_tag() -> None:
    """BodyLength and CheckSum are not in the JSON, and right again in what is written. Values keep their text."""
    message = _framed(ORDER)
    assert _read(message) == {
        "8": "FIX.4.4", "35": "D", "49": "DESK", "56": "BROKER", "34": "12", "52": "20261126-10:00:00", "11": "1",
        "55": "IBM", "54": "1", "38": "100", "44": "1.50",
    }  # fmt: skip
    assert _written(_read(message)) == message


def test_a_message_of_the_standard_has_soh() -> None:
    """The default separator is that of the standard; the example has the length and the sum that it prints."""
    message = (
        "8=FIX.4.2|9=178|35=8|49=PHLX|56=PERS|52=20071123-05:30:00.000|11=ATOMNOCCC9990900|20=3|150=E|39=E|55=MSFT|"
        "167=CS|54=1|38=15|40=2|44=15|58=PHLX EQUITY TESTING|59=0|47=C|32=0|31=0|151=15|14=0|6=0|10=128|"
    ).replace("|", "\x01")
    document = _read(message, CODEC)
    assert document["58"] == "PHLX EQUITY TESTING"
    assert _written(document, CODEC) == message


def test_a_message_without_a_header_has_none() -> None:
    """The chapters' topic has the keys /55 and /109: its messages need nothing else."""
    assert _read("55=IBM|109=C1|38=100") == {"55": "IBM", "109": "C1", "38": "100"}
    assert _written({"55": "IBM", "109": "C1", "38": 100}) == "55=IBM|109=C1|38=100|"


def test_an_empty_value_is_kept() -> None:
    """It is NULL for filters, but the text comes back."""
    assert _read("55=|11=1|") == {"55": "", "11": "1"}
    assert _written({"55": "", "11": None}) == "55=|11=|"


def test_an_equals_sign_belongs_to_the_value() -> None:
    """Only the first one ends the tag."""
    assert _read("58=a=b|") == {"58": "a=b"}


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("", "got an empty one"),
        ("|", "got an empty one"),
        ("11=1||55=IBM|", "got an empty one"),
        ("11=1|55|", "got '55'"),
        ("=1|", "expected a tag from 1 to 999999999, got ''"),
        ("055=1|", "got '055'"),
        ("-5=1|", "got '-5'"),
        ("x=1|", "got 'x'"),
        ("٣=1|", "expected a tag from 1"),
        ("1234567890=1|", "got '1234567890'"),
        (b"11=1|\xff=2|", r"got '\\xff'"),
        (b"11=1|\xff|", r"got '\\xff'"),
        ("9=5|11=1|", "got 9 elsewhere"),
        ("11=1|10=000|", "got 10 elsewhere"),
        ("11=1|8=FIX.4.4|", "got 8 elsewhere"),
    ],
)
def test_what_is_no_message(message: str | bytes, sentence: str) -> None:
    """The sentence has what was expected, and an excerpt of what came."""
    assert sentence in _refusal(message)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (_framed(ORDER).replace("9=82", "9=83"), "expected 82 in 9 (BodyLength), got '83'"),
        (_framed(ORDER).replace("9=82", "9=-82"), "expected 82 in 9 (BodyLength), got '-82'"),
        (_framed(ORDER).replace("9=82", "9="), "got ''"),
        (_framed(ORDER).replace("9=82", f"9={'7' * 5000}"), "expected 82 in 9 (BodyLength), got '7777"),
        (_framed(ORDER)[:-4] + "999|", "in 10 (CheckSum), got '999'"),
        (_framed(ORDER)[:-4] + "x|", "expected 3 digits in 10 (CheckSum), got 'x'"),
        (_framed(ORDER)[:-4] + "0000|", "expected 3 digits in 10 (CheckSum), got '0000'"),
        (_framed(ORDER)[:-4] + "٣٣٣|", "expected 3 digits in 10 (CheckSum)"),
        (_framed(ORDER) + "58=late|", "10 (CheckSum) last"),
        (_framed(ORDER).replace("35=D|", ""), "35 (MsgType) first"),
        ("8=FIX.4.4|35=D|11=1|", "9 (BodyLength)"),
        ("8=FIX.4.4|", "expected 8 (BeginString)"),
        ("8=FIX.4.4|9=0|10=1|", "expected 8 (BeginString)"),
        (_framed(ORDER + "9=5|"), "got 9 elsewhere"),
        (_framed(ORDER + "10=5|"), "got 10 elsewhere"),
        (_framed(ORDER + "35=G|"), "expected 35 once"),
        (_framed(ORDER + "8=FIX.4.4|"), "expected 8 once"),
    ],
)
def test_a_wrong_frame_is_refused(wrong: str, sentence: str) -> None:
    """A message with BeginString must have a right length and sum, each in its position."""
    assert sentence in _refusal(wrong)


def test_header_and_trailer_have_their_position() -> None:
    """A record to which a delta gave its header is written with it at the front."""
    merged = PIPES.merged(b'{"11":"1","55":"IBM","89":"s"}', b'{"8":"FIX.4.4","35":"G","49":"DESK","38":"5"}')
    message = PIPES.write(merged).decode()
    assert message == _framed("8=FIX.4.4|35=G|49=DESK|11=1|55=IBM|38=5|93=1|89=s|")
    assert PIPES.completed(merged) == PIPES.read(MessagePayload(message.encode()), SCHEMA)
    assert list(_read(_framed("8=FIX.4.4|35=D|11=1|49=DESK|"))) == ["8", "35", "49", "11"]


def test_a_tag_that_comes_several_times_is_an_array() -> None:
    """The order between several such tags is not kept."""
    assert _read("58=a|1=x|58=b|1=y|58=c|") == {"58": ["a", "b", "c"], "1": ["x", "y"]}
    assert _written({"58": ["a", "b", "c"], "1": ["x", "y"]}) == "58=a|58=b|58=c|1=x|1=y|"
    assert PIPES.completed(b'{"58":["a"]}') == b'{"58":"a"}'


# --- groups -----------------------------------------------------------------------------------------------------

PARTIES = "11=1|453=2|448=A|447=D|802=2|523=x|803=1|523=y|452=1|448=B|452=3|55=IBM|"


def test_groups_of_the_standard_are_arrays() -> None:
    """The length of an array is the count."""
    assert _read(PARTIES) == {
        "11": "1",
        "453": [
            {"448": "A", "447": "D", "802": [{"523": "x", "803": "1"}, {"523": "y"}], "452": "1"},
            {"448": "B", "452": "3"},
        ],
        "55": "IBM",
    }
    assert _written(_read(PARTIES)) == PARTIES
    assert _read("11=1|453=0|") == {"11": "1", "453": []}
    assert _written({"11": "1", "453": []}) == "11=1|453=0|"


def test_the_members_of_a_group_depend_on_the_message_type() -> None:
    """Side is a field of an order, but within ListStrikePrice one of each underlying."""
    assert _read(_framed("8=FIX.4.4|35=D|711=1|311=X|54=1|"))["54"] == "1"
    assert _read("711=1|311=X|54=1|")["54"] == "1"
    assert _read(_framed("8=FIX.4.4|35=m|711=1|311=X|54=1|"))["711"] == [{"311": "X", "54": "1"}]
    assert _written({"8": "FIX.4.4", "35": "m", "711": [{"311": "X", "54": "1"}]}) == _framed(
        "8=FIX.4.4|35=m|711=1|311=X|54=1|"
    )
    assert "expected members of the group 711" in _refusal_of(
        {"8": "FIX.4.4", "35": "D", "711": [{"311": "X", "54": "1"}]}
    )


def test_groups_may_be_named() -> None:
    """A group of the options replaces that of the standard; without members, the count is an ordinary field."""
    codec = _with_options(separator="|", groups={"5001": [5002, 5003], "453": [], "J:5001": ["5004"]})
    assert _read("5001=1|5002=a|5003=b|", codec) == {"5001": [{"5002": "a", "5003": "b"}]}
    assert _read("35=J|5001=1|5004=a|5003=b|", codec) == {"35": "J", "5001": [{"5004": "a"}], "5003": "b"}
    assert _read("453=2|448=A|448=B|", codec) == {"453": "2", "448": ["A", "B"]}
    assert _written({"5001": [{"5002": "a"}]}, codec) == "5001=1|5002=a|"


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (
            "453=2|448=A|55=IBM|",
            "expected 2 entries in the group 453, the value of its count, got 1 before 55",
        ),
        (
            "453=1|448=A|448=B|",
            "expected 1 entries in the group 453, the value of its count, got 2 before the end",
        ),
        ("453=0|448=A|", "got 1 before the end"),
        ("453=1|", "got 0 before the end"),
        ("453=1|55=IBM|", "got 0 before 55"),
        ("453=2|448=A|9001=x|448=B|", "got 1 before 9001: name the members"),
        ("453=-1|448=A|", "expected a number of at most 9 digits in '453', got '-1'"),
        ("453=|448=A|", "got ''"),
        ("453=1.0|448=A|", "got '1.0'"),
        (f"453={'9' * 1_000_000}|448=A|", "expected a number"),
        (b"453=\xff|448=A|", "got bytes"),
        ("453=1|448=A|55=IBM|453=1|448=B|", "expected the group 453 once"),
    ],
)
def test_groups_that_are_wrong(message: str | bytes, sentence: str) -> None:
    """The count must be the number of entries."""
    assert sentence in _refusal(message)


def test_a_field_that_a_group_would_take_comes_before_it() -> None:
    """A delta may add such a field to a record that ends with the group."""
    merged = PIPES.merged(b'{"11":"1","453":[{"448":"A"}]}', b'{"447":"D","448":"B","38":"5"}')
    assert PIPES.write(merged) == b"11=1|447=D|448=B|453=1|448=A|38=5|"
    assert PIPES.completed(merged) == b'{"11":"1","447":"D","448":"B","453":[{"448":"A"}],"38":"5"}'


def test_entries_begin_with_the_same_field() -> None:
    """It is the first field of the first entry."""
    assert _written({"453": [{"448": "A", "447": "D"}, {"447": "E", "448": "B"}]}) == (
        "453=2|448=A|447=D|448=B|447=E|"
    )
    assert "expected '448' in each entry" in _refusal_of({"453": [{"448": "A"}, {"447": "E"}]})


def test_entries_that_could_not_be_separated() -> None:
    """What a reader would read in another way is refused."""
    codec = _with_options(groups={"5001": [5002, 5003], "5003": [5004, 5002]})
    inseparable = [{"5002": "a", "5003": [{"5004": "b"}]}, {"5002": "c"}]
    assert "only where it can't be read as part of the group before it" in _refusal_of(
        {"5001": inseparable}, codec
    )
    first = [{"5003": [{"5004": "b"}], "5002": "a"}]
    assert "can't be read as part of" in _refusal_of({"5001": first}, codec)


# --- data -------------------------------------------------------------------------------------------------------


def test_data_fields_may_contain_the_separator() -> None:
    """Their length is in bytes, and is not in the JSON."""
    assert _read("95=7|96=a|b=c|d|58=x|") == {"96": "a|b=c|d", "58": "x"}
    assert _written({"96": "a|b=c|d", "58": "x"}) == "95=7|96=a|b=c|d|58=x|"
    assert _read("95=4|96=é\x01x|") == {"96": "é\x01x"}
    assert _read("95=0|96=") == {"96": ""}


def test_bytes_that_are_not_utf8_are_base64() -> None:
    """Text in Latin-1, or as MessageEncoding (347) has it, comes back as it was."""
    message = b"58=\xe9t\xe9|95=3|96=\xff|\x00|"
    assert _read(message) == {"58": {"$base64": "6XTp"}, "96": {"$base64": "/3wA"}}
    assert PIPES.write(orjson.dumps(_read(message))) == message
    assert PIPES.completed(b'{"58":{"$base64":"SUJN"}}') == b'{"58":"IBM"}'
    assert PIPES.merged(b'{"58":{"$base64":"/w=="}}', b'{"58":"x"}') == b'{"58":"x"}'


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("95=5|96=abc|", "expected 5 bytes and the separator in the data field 96"),
        ("95=2|96=abc|", "expected 2 bytes"),
        ("95=-1|96=abc|", "got '-1'"),
        ("95=999999999|96=abc|", "expected 999999999 bytes"),
        (f"95={'1' * 100_000}|96=abc|", "expected a number of at most 9 digits"),
        ("95=3|58=abc|", "expected the data field 96 after its length 95, got '58='"),
        ("95=3", "expected the data field 96 after its length 95, got the end"),
        ("95=3|", "expected the data field 96"),
    ],
)
def test_data_of_another_length_is_refused(message: str, sentence: str) -> None:
    """No length makes a reader look beyond the message."""
    assert sentence in _refusal(message)


# --- JSON from clients ------------------------------------------------------------------------------------------


def test_scalars_have_their_text() -> None:
    """Numbers keep their digits; FIX has no exponents. Booleans are Y and N."""
    body = b'{"38":1.50,"44":2e-3,"53":12345678901234567890,"114":true,"141":false,"58":null,"1":[1,true]}'
    assert PIPES.write(body) == b"38=1.50|44=0.002|53=12345678901234567890|114=Y|141=N|58=|1=1|1=Y|"
    assert orjson.loads(PIPES.completed(body)) == {
        "38": "1.50", "44": "0.002", "53": "12345678901234567890", "114": "Y", "141": "N", "58": "", "1": ["1", "Y"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({}, "expected a JSON object with the fields of a message"),
        ([], "expected a JSON object"),
        ({"Symbol": "IBM"}, "expected a tag from 1 to 999999999, got 'Symbol'"),
        ({"58": "a|b"}, "expected no separator in the value of '58'"),
        ({"58": {"$base64": "fA=="}}, "expected no separator in the value of '58'"),
        ({"58": {"$base64": "?"}}, "expected base64 in $base64, got '?'"),
        ({"58": {"a": "b"}}, "expected a text, a number, a boolean or null in '58', got an object"),
        ({"58": []}, "expected at least one value in '58'"),
        ({"58": [["a"]]}, "got an array"),
        ({"453": "2"}, "expected an array of objects with the entries of the group '453'"),
        ({"453": ["A"]}, "expected an array of objects"),
        ({"453": [{}]}, "expected an array of objects"),
        ({"453": [{"55": "IBM"}]}, "expected members of the group 453 in its entries, got '55'"),
        ({"453": [{"448": ["A", "B"]}]}, "got an array"),
        ({"95": "1", "96": "a"}, "expected no '95': it is computed from the data field"),
        ({"8": "FIX.4.4", "35": "D", "9": "5"}, "expected no '9': 9 is computed"),
        ({"11": "1", "10": "000"}, "expected no '10'"),
        ({"8": "FIX.4.4"}, "expected one text in '35'"),
        ({"8": "FIX.4.4", "35": ["D", "8"]}, "expected one text in '35'"),
        ({"8": ["FIX.4.4", "FIX.4.2"], "35": "D"}, "expected one text in '8'"),
    ],
)
def test_json_that_no_message_has(document: Any, sentence: str) -> None:
    """It can be neither written nor stored."""
    assert sentence in _refusal_of(document)


@pytest.mark.parametrize(
    "body", [b"{", b'{"58":"\\ud800"}', b'{"58":' + b"9" * 5000 + b"}", b'{"58":1e999999999}', b'{"58":\xff}']
)
def test_json_that_is_not_valid(body: bytes) -> None:
    """A record from an API is checked like any other."""
    with pytest.raises(SowlineError, match="expected") as caught:
        PIPES.write(body)
    assert caught.value.reason == "bad message"


def test_a_delta_changes_the_fields_that_it_has() -> None:
    """A group is replaced as a whole. Ordinary messages are deltas, too: their header replaces the earlier one."""
    body = PIPES.read(MessagePayload(_framed(ORDER + "453=1|448=A|").encode()), SCHEMA)
    delta = PIPES.read_delta(MessagePayload(b"11=1|38=5|55=|453=1|448=B|"), SCHEMA, None)
    merged = orjson.loads(PIPES.merged(body, delta))
    assert merged == orjson.loads(body) | {"38": "5", "55": "", "453": [{"448": "B"}]}
    change = _framed("8=FIX.4.4|35=G|34=13|11=1|38=6|")
    whole = PIPES.merged(body, PIPES.read_delta(MessagePayload(change.encode()), SCHEMA, None))
    assert PIPES.write(whole).decode() == _framed(
        ORDER.replace("35=D", "35=G").replace("34=12", "34=13").replace("38=100", "38=6") + "453=1|448=A|"
    )


def test_a_delta_has_no_header_of_fields() -> None:
    """The message itself shows what it changes."""
    with pytest.raises(SowlineError, match=r"expected no sow\.fields") as caught:
        PIPES.read_delta(MessagePayload(b"11=1|"), SCHEMA, ["/11"])
    assert caught.value.reason == "bad header"
