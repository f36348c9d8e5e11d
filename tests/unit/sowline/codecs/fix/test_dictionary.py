"""Data dictionaries: names, groups, and data fields."""

import orjson
import pytest

from sowline.codecs.fix import FixCodec, read_dictionary, read_value_names
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.fix.topics import DICTIONARY, read_by, schema


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
    codec = FixCodec(schema(separator="|", **read_dictionary(DICTIONARY)))
    message = b"11=1|453=1|448=A|711=1|311=X|54=1|354=2|355=|||9999=x|"
    document = read_by(codec, message)
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
    assert read_by(codec, framed) == {"BeginString": "F", "MsgType": "m", "ClOrdID": "1"}


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
    codec = FixCodec(schema(separator="|", **read_dictionary(DICTIONARY)))
    with pytest.raises(SowlineError) as caught:
        codec.write(body)
    assert caught.value.reason == "bad message"
    assert sentence in caught.value.message
