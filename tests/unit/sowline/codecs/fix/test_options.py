"""The options of FIX topics."""

import pytest

from sowline.codecs.fix import FixCodec
from sowline.codecs.fix.options import FixOptions
from sowline.codecs.schema import FIX, NVFIX, Schema
from sowline.config.message_formats import MessageFormat
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.fix.topics import DICTIONARY, read_by, schema


def test_groups_of_the_topic_count_more_than_those_of_a_dictionary() -> None:
    """One for all messages replaces those of single messages, too; one for a message replaces only that."""
    dictionaries = [{"text": DICTIONARY}]
    for own, expected in (
        ({711: [311, 5001]}, {"711": (311, 5001)}),
        ({"m:711": [311]}, {"711": [311], "m:711": (311,)}),
    ):
        options = MessageFormat.model_validate({"dictionaries": dictionaries, "groups": own})
        assert options.sent()["groups"] == {"453": [448, 802], "802": [523], **expected}


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
        assert read_by(FixCodec(Schema(FIX, text)), b"95=1\x0197=x\x01") == {"97": "x"}
        return
    with pytest.raises(SowlineError) as caught:
        FixCodec(Schema(FIX, text))
    assert caught.value.reason == "bad schema"
    assert sentence in caught.value.message


def test_a_pair_of_the_standard_may_be_ordinary_fields() -> None:
    """Some counterparts send a length that is none."""
    codec = FixCodec(schema(separator="|", data={"95": None}))
    assert read_by(codec, b"95=x|96=y|") == {"95": "x", "96": "y"}


def test_nvfix_has_only_its_own_groups_and_data() -> None:
    """Nothing of the standard, and names instead of tags."""
    text = '{"separator":"|","groups":{"NoLegs":["LegQty"]},"data":{"Size":"Blob"}}'
    options = FixOptions(Schema(NVFIX, text))
    assert options.groups(None) == {"NoLegs": {"LegQty"}}
    assert options.all_groups == {"NoLegs": {"": {"LegQty"}}}
    assert options.data == {"Size": "Blob"}
    assert options.lengths == {"Blob": "Size"}
    options.check_tags(["Symbol", "price €"])
    assert options.is_known(["Symbol", "price €"])
    for wrong in ("", "a=b", "a|b"):
        with pytest.raises(SowlineError, match="expected a name without = and the separator") as caught:
            options.check_tags([wrong])
        assert caught.value.reason == "bad message"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"names":{"55":"Symbol"}}', "expected no names for nvfix"),
        ('{"groups":{"a=b":["c"]}}', "a name without ="),
    ],
)
def test_options_of_nvfix_that_are_wrong(text: str, sentence: str) -> None:
    """Its messages have the names."""
    with pytest.raises(SowlineError, match=sentence) as caught:
        FixOptions(Schema(NVFIX, text))
    assert caught.value.reason == "bad schema"


def test_a_field_has_a_tag_and_a_name() -> None:
    """Those that the options do not name have their tag. Only the groups of a message's own type count for it."""
    options = FixOptions(Schema(FIX, '{"names":{"35":"MsgType","54":"Side"},"groups":{"D:711":[311]}}'))
    assert (options.name_of("54"), options.name_of("55")) == ("Side", "55")
    assert (options.tag_of("Side"), options.tag_of("54"), options.tag_of("55")) == ("54", "54", "55")
    assert options.message_type_name == "MsgType"
    assert options.groups("D")["711"] == {"311"}
    assert "711" not in options.groups("Z")
    with pytest.raises(SowlineError, match="or a name of a field, got 'Symbol'"):
        options.tag_of("Symbol")
