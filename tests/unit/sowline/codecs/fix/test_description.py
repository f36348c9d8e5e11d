"""The JSON Schema of FIX messages as JSON."""

import jsonschema_rs

from sowline.codecs.fix import FixCodec, read_dictionary
from tests.unit.sowline.codecs.fix.topics import DICTIONARY, read_by, schema


def test_canonical_json_is_described() -> None:
    """The description accepts what is read, and nothing that can't be written."""
    codec = FixCodec(schema(separator="|", **read_dictionary(DICTIONARY)))
    validator = jsonschema_rs.validator_for(codec.described())
    for message in (b"11=1|453=1|448=A|9999=x|", b"9999=a|9999=b|58=\xff|", b"35=m|711=1|311=X|54=1|"):
        assert validator.is_valid(read_by(codec, message))
    for wrong in ({"Other": "x"}, {"NoPartyIDs": "1"}, {"CheckSum": "1"}, {"Side": 1}, {}, {"Side": ["1"]}):
        assert not validator.is_valid(wrong)


def test_a_length_is_no_member_of_an_entry() -> None:
    """The data field is one; its length is computed when a message is written."""
    codec = FixCodec(schema(groups={"5001": [1, 5002, 5003]}, data={"5002": 5003}))
    validator = jsonschema_rs.validator_for(codec.described())
    assert validator.is_valid({"5001": [{"1": "A", "5003": "x"}]})
    assert not validator.is_valid({"5001": [{"1": "A", "5002": "1"}]})
