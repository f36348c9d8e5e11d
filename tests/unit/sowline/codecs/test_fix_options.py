"""The options of FIX topics: names, dictionaries, and options that change."""

from typing import Any

import jsonschema_rs
import orjson
import pytest

from sowline.codecs.fix import FixCodec, read_dictionary, read_value_names
from sowline.codecs.schema import FIX, NVFIX, MessagePayload, Schema
from sowline.config.message_formats import MessageFormat
from sowline.errors import SowlineError

DICTIONARY = """
<fix major="4" minor="4">
  <header><field name="BeginString" required="Y"/><field name="MsgType"/></header>
  <messages>
    <message name="NewOrderSingle" msgtype="D" msgcat="app">
      <field name="ClOrdID"/>
      <component name="Parties"/>
      <group name="NoUnderlyings"><field name="UnderlyingSymbol"/></group>
      <field name="Side"/>
      <field name="EncodedTextLen"/><field name="EncodedText"/>
    </message>
    <message name="ListStrikePrice" msgtype="m" msgcat="app">
      <group name="NoUnderlyings"><field name="UnderlyingSymbol"/><field name="Side"/></group>
    </message>
  </messages>
  <trailer><field name="CheckSum" required="Y"/></trailer>
  <components>
    <component name="Parties">
      <group name="NoPartyIDs">
        <field name="PartyID"/>
        <group name="NoPartySubIDs"><field name="PartySubID"/></group>
      </group>
    </component>
  </components>
  <fields>
    <field number="8" name="BeginString" type="STRING"/>
    <field number="10" name="CheckSum" type="STRING"/>
    <field number="11" name="ClOrdID" type="STRING"/>
    <field number="35" name="MsgType" type="STRING"><value enum="D" description="NEW"/></field>
    <field number="54" name="Side" type="CHAR">
      <value enum="1" description="BUY"/><value enum="2" description="SELL"/><value enum="3"/>
    </field>
    <field number="311" name="UnderlyingSymbol" type="STRING"/>
    <field number="354" name="EncodedTextLen" type="LENGTH"/>
    <field number="355" name="EncodedText" type="DATA"/>
    <field number="448" name="PartyID" type="STRING"/>
    <field number="453" name="NoPartyIDs" type="NUMINGROUP"/>
    <field number="523" name="PartySubID" type="STRING"/>
    <field number="711" name="NoUnderlyings" type="NUMINGROUP"/>
    <field number="802" name="NoPartySubIDs" type="NUMINGROUP"/>
    <field number="9001" name="BlobSize" type="LENGTH"/>
    <field number="9002" name="Blob" type="DATA"/>
    <field number="9003" name="Blob2" type="DATA" lenField="9004"/>
    <field number="9004" name="Blob2Bytes" type="INT"/>
    <field number="9005" name="Blob3" type="DATA" lenField="Blob3Bytes"/>
    <field number="9006" name="Blob3Bytes" type="INT"/>
    <field number="9007" name="Free" type="DATA"/>
  </fields>
</fix>"""


def _schema(type: Any = FIX, **options: Any) -> Schema:
    return Schema(type, orjson.dumps(options, option=orjson.OPT_SORT_KEYS).decode())


def _read(codec: FixCodec, message: bytes) -> dict[str, Any]:
    document: dict[str, Any] = orjson.loads(codec.read(MessagePayload(message), _schema()))
    return document


def test_a_dictionary_has_names_groups_and_data() -> None:
    """Members that depend on the message have its MsgType. Lengths are found by attribute, name, or position."""
    found = read_dictionary(DICTIONARY)
    assert found["names"]["54"] == "Side"
    assert len(found["names"]) == 20
    assert found["groups"] == {"453": [448, 802], "711": [311], "m:711": [311, 54], "802": [523]}
    assert found["data"] == {"354": 355, "9001": 9002, "9004": 9003, "9006": 9005}


def test_the_names_of_values() -> None:
    """Those that have one; a later dictionary names them again."""
    later = """<fix><messages/><fields>
      <field number="54" name="Side" type="CHAR"><value enum="2" description="SELL_SIDE"/></field></fields></fix>"""
    found = read_value_names(DICTIONARY, later)
    assert found == {"35": {"D": "NEW"}, "54": {"1": "BUY", "2": "SELL_SIDE"}}
    assert read_value_names() == {}


def test_groups_of_the_topic_count_more_than_those_of_a_dictionary() -> None:
    """One for all messages replaces those of single messages, too; one for a message replaces only that."""
    dictionaries = [{"text": DICTIONARY}]
    for own, expected in (
        ({711: [311, 5001]}, {"711": (311, 5001)}),
        ({"m:711": [311]}, {"711": [311], "m:711": (311,)}),
    ):
        options = MessageFormat.model_validate({"dictionaries": dictionaries, "groups": own})
        assert options.sent()["groups"] == {"453": [448, 802], "802": [523], **expected}


def test_several_dictionaries_count_as_one() -> None:
    """FIX 5.0 has the header in a dictionary of its own."""
    transport = (
        "<fix><header><group name='NoHops'><field name='HopCompID'/></group></header><messages/><fields>"
        "<field number='627' name='NoHops' type='NUMINGROUP'/><field number='628' name='HopCompID' type='STRING'/>"
        "</fields></fix>"
    )
    found = read_dictionary(transport, DICTIONARY)
    assert found["groups"]["627"] == [628]
    assert found["names"]["628"] == "HopCompID"
    assert found["names"]["54"] == "Side"


@pytest.mark.parametrize(
    ("xml", "sentence"),
    [
        ("", "expected a QuickFIX data dictionary in XML, but"),
        ("<fix>", "expected a QuickFIX data dictionary in XML, but"),
        ("<fix/>", "with the element fields, got none"),
        ("<fix><fields/></fix>", "with the element messages, got none"),
        ("<fix><fields><field/></fields></fix>", "expected the attribute name at <field>"),
        ("<fix><fields><field name='a' number='x'/></fields></fix>", "expected a field's number"),
        (DICTIONARY.replace('<field name="Side"/>', '<field name="Other"/>'), "expected the field 'Other'"),
        (DICTIONARY.replace('"Parties"/>', '"Others"/>'), "expected the component 'Others'"),
        (
            DICTIONARY.replace('<field name="PartySubID"/>', '<component name="Parties"/>'),
            "expected at most 50 levels",
        ),
        (
            DICTIONARY.replace(
                '<component name="Parties">', '<component name="Parties"><component name="Parties"/>'
            ),
            "expected at most 50 levels of components",
        ),
    ],
)
def test_texts_that_are_no_dictionary(xml: str, sentence: str) -> None:
    """A wrong file is found when the topic is defined."""
    with pytest.raises(SowlineError) as caught:
        read_dictionary(xml)
    assert caught.value.reason == "bad schema"
    assert sentence in caught.value.message


def test_json_has_the_names_of_a_dictionary() -> None:
    """A tag that the dictionary lacks keeps its number. A client may write either."""
    codec = FixCodec(_schema(separator="|", **read_dictionary(DICTIONARY)))
    message = b"11=1|453=1|448=A|711=1|311=X|54=1|354=2|355=|||9999=x|"
    document = _read(codec, message)
    assert document == {
        "ClOrdID": "1",
        "NoPartyIDs": [{"PartyID": "A"}],
        "NoUnderlyings": [{"UnderlyingSymbol": "X"}],
        "Side": "1",
        "EncodedText": "||",
        "9999": "x",
    }
    assert codec.write(orjson.dumps(document)) == message
    assert codec.write(b'{"11":"1","453":[{"448":"A"}],"Side":2}') == b"11=1|453=1|448=A|54=2|"
    framed = codec.write(b'{"ClOrdID":"1","MsgType":"m","BeginString":"F"}')
    assert framed == b"8=F|9=10|35=m|11=1|10=100|"
    assert _read(codec, framed) == {"BeginString": "F", "MsgType": "m", "ClOrdID": "1"}


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"Symbol":"IBM"}', "or a name of a field, got 'Symbol'"),
        (b'{"Side":"1","54":"2"}', "expected each field once, got one by its name and by its tag"),
        (b'{"453":[{"448":"A","PartyID":"B"}]}', "expected each field once"),
        (b'{"BeginString":"F","MsgType":"m","CheckSum":"1"}', "expected no 'CheckSum'"),
        (b'{"BeginString":"F"}', "expected one text in 'MsgType'"),
        (b'{"EncodedTextLen":1}', "expected no 'EncodedTextLen'"),
    ],
)
def test_json_with_names_that_no_message_has(body: bytes, sentence: str) -> None:
    """The sentence has the names that the client used."""
    codec = FixCodec(_schema(separator="|", **read_dictionary(DICTIONARY)))
    with pytest.raises(SowlineError) as caught:
        codec.write(body)
    assert caught.value.reason == "bad message"
    assert sentence in caught.value.message


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "expected the options of fix as a JSON object"),
        ("[]", "expected the options of fix as a JSON object"),
        ('{"other":1}', "other"),
        ('{"groups":{"453":"448"}}', "groups"),
        ('{"separator":""}', "expected as separator one ASCII character"),
        ('{"separator":"||"}', "expected as separator"),
        ('{"separator":"="}', "expected as separator"),
        ('{"separator":"5"}', "expected as separator"),
        ('{"separator":"é"}', "expected as separator"),
        ('{"names":{"x":"Symbol"}}', "expected a name for each tag, got 'Symbol' for 'x'"),
        ('{"names":{"55":""}}', "expected a name for each tag"),
        ('{"names":{"55":"48"}}', "expected a name for each tag, got '48'"),
        ('{"names":{"55":"A","48":"A"}}', "expected another name for each tag, got 'A' twice"),
        ('{"groups":{"x":[1]}}', "expected a tag from 1 to 999999999, got 'x'"),
        ('{"groups":{"453":["x"]}}', "got 'x'"),
        ('{"groups":{"453":[0]}}', "got '0'"),
        ('{"groups":{"453":[35]}}', "expected no 35 in groups and data"),
        ('{"groups":{"9":[1]}}', "expected no 9 in groups and data"),
        ('{"groups":{"5001":[5001]}}', "expected groups that nest at most 20 levels"),
        ('{"groups":{"5001":[5002],"5002":[5001]}}', "or one within itself, such as '5001'"),
        ('{"groups":{"96":[1]}}', "expected the count of a group, got '96', which is in data"),
        ('{"data":{"95":97}}', ""),
        ('{"data":{"5001":96}}', "in each pair, got one twice"),
        ('{"data":{"5001":5001}}', "in each pair, got one twice"),
    ],
)
def test_options_that_are_wrong(text: str, sentence: str) -> None:
    """Options are refused as a whole, with a sentence."""
    if not sentence:
        assert _read(FixCodec(Schema(FIX, text)), b"95=1\x0197=x\x01") == {"97": "x"}
        return
    with pytest.raises(SowlineError) as caught:
        FixCodec(Schema(FIX, text))
    assert caught.value.reason == "bad schema"
    assert sentence in caught.value.message


def test_a_pair_of_the_standard_may_be_ordinary_fields() -> None:
    """Some counterparts send a length that is none."""
    codec = FixCodec(_schema(separator="|", data={"95": None}))
    assert _read(codec, b"95=x|96=y|") == {"95": "x", "96": "y"}


@pytest.mark.parametrize(
    ("earlier", "later", "sentence"),
    [
        ({}, {}, ""),
        ({}, {"names": {"55": "Symbol"}}, ""),
        ({"groups": {"5001": [1]}}, {"groups": {"5001": [1, 2]}}, ""),
        (
            {"groups": {"5001": [1]}},
            {"groups": {"5001": [1]}, "names": {"1": "Account", "5001": "NoIds"}},
            "",
        ),
        ({"names": {"55": "Symbol"}}, {}, "the name of 55"),
        ({"names": {"55": "Symbol"}}, {"names": {"55": "Ticker"}}, "'Symbol', got 'Ticker'"),
        ({}, {"separator": "|"}, "the separator"),
        ({}, {"groups": {"5001": [1]}}, "whether 5001 is the count of a group"),
        ({"groups": {"5001": [1]}}, {}, "whether 5001 is the count of a group"),
        ({"groups": {"5001": [1, 2]}}, {"groups": {"5001": [1]}}, "the members of the group 5001"),
        (
            {"groups": {"5001": [1, 2]}},
            {"groups": {"5001": [1, 2], "D:5001": [1]}},
            "the members of the group 5001",
        ),
        ({}, {"groups": {"453": []}}, "whether 453 is the count of a group"),
        ({"data": {"5001": 5002}}, {}, "the data field of '5001'"),
        ({}, {"data": {"95": None}}, "the data field of '95'"),
    ],
)
def test_options_may_change_as_long_as_records_stay_right(
    earlier: dict[str, Any], later: dict[str, Any], sentence: str
) -> None:
    """Names and members of groups may be added."""
    if not sentence:
        FixCodec(_schema(**later)).check_reads(_schema(**earlier))
        return
    with pytest.raises(SowlineError) as caught:
        FixCodec(_schema(**later)).check_reads(_schema(**earlier))
    assert caught.value.reason == "incompatible schema"
    assert sentence in caught.value.message


def test_another_message_type_is_incompatible() -> None:
    """NVFIX has names where FIX has tags."""
    with pytest.raises(SowlineError, match="the message type"):
        FixCodec(_schema()).check_reads(_schema(NVFIX))


def test_records_get_names_that_were_added() -> None:
    """A delta then merges into the field, and not beside it."""
    codec = FixCodec(_schema(names={"55": "Symbol", "453": "NoPartyIDs", "448": "PartyID"}))
    body = codec.upgraded(b'{"55":"IBM","11":"1","453":[{"448":"A"}]}')
    assert body == b'{"Symbol":"IBM","11":"1","NoPartyIDs":[{"PartyID":"A"}]}'
    plain = FixCodec(_schema())
    assert plain.upgraded(b'{"55":"IBM"}') == b'{"55":"IBM"}'


def test_canonical_json_is_described() -> None:
    """The description accepts what is read, and nothing that can't be written."""
    codec = FixCodec(_schema(separator="|", **read_dictionary(DICTIONARY)))
    validator = jsonschema_rs.validator_for(codec.described())
    for message in (b"11=1|453=1|448=A|9999=x|", b"9999=a|9999=b|58=\xff|", b"35=m|711=1|311=X|54=1|"):
        assert validator.is_valid(_read(codec, message))
    for wrong in ({"Other": "x"}, {"NoPartyIDs": "1"}, {"CheckSum": "1"}, {"Side": 1}, {}, {"Side": ["1"]}):
        assert not validator.is_valid(wrong)
