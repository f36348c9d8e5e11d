"""Options that change, and the records that were stored before."""

from typing import Any

import pytest

from sowline.codecs.fix import FixCodec
from sowline.codecs.schema import NVFIX
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.fix.topics import schema


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
        ({}, {"data": {"5001": 5002}}, "the data field of '5001'"),
        ({}, {"data": {"95": None}}, "the data field of '95'"),
    ],
)
def test_options_may_change_as_long_as_records_stay_right(
    earlier: dict[str, Any], later: dict[str, Any], sentence: str
) -> None:
    """Names and members of groups may be added."""
    if not sentence:
        FixCodec(schema(**later)).check_reads(schema(**earlier))
        return
    with pytest.raises(SowlineError) as caught:
        FixCodec(schema(**later)).check_reads(schema(**earlier))
    assert caught.value.reason == "incompatible schema"
    assert sentence in caught.value.message


def test_another_message_type_is_incompatible() -> None:
    """NVFIX has names where FIX has tags."""
    with pytest.raises(SowlineError, match="the message type"):
        FixCodec(schema()).check_reads(schema(NVFIX))


def test_records_get_names_that_were_added() -> None:
    """A delta then merges into the field, and not beside it."""
    codec = FixCodec(schema(names={"55": "Symbol", "453": "NoPartyIDs", "448": "PartyID"}))
    body = codec.upgraded(b'{"55":"IBM","11":"1","453":[{"448":"A"}]}')
    assert body == b'{"Symbol":"IBM","11":"1","NoPartyIDs":[{"PartyID":"A"}]}'
    plain = FixCodec(schema())
    assert plain.upgraded(b'{"55":"IBM"}') == b'{"55":"IBM"}'
