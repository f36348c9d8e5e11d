"""The header and trailer that frame a message."""

import pytest

from sowline.codecs.fix.options import FixOptions
from sowline.codecs.fix.session import FixSession
from sowline.codecs.schema import FIX, Schema
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.fix.messages import (
    ORDER,
    framed,
    refusal,
)


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
    assert sentence in refusal(message)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (framed(ORDER).replace("9=82", "9=83"), "expected 82 in 9 (BodyLength), got '83'"),
        (framed(ORDER).replace("9=82", "9=-82"), "expected 82 in 9 (BodyLength), got '-82'"),
        (framed(ORDER).replace("9=82", "9="), "got ''"),
        (framed(ORDER).replace("9=82", f"9={'7' * 5000}"), "expected 82 in 9 (BodyLength), got '7777"),
        (framed(ORDER)[:-4] + "999|", "in 10 (CheckSum), got '999'"),
        (framed(ORDER)[:-4] + "x|", "expected 3 digits in 10 (CheckSum), got 'x'"),
        (framed(ORDER)[:-4] + "0000|", "expected 3 digits in 10 (CheckSum), got '0000'"),
        (framed(ORDER)[:-4] + "٣٣٣|", "expected 3 digits in 10 (CheckSum)"),
        (framed(ORDER) + "58=late|", "10 (CheckSum) last"),
        (framed(ORDER).replace("35=D|", ""), "35 (MsgType) first"),
        ("8=FIX.4.4|35=D|11=1|", "9 (BodyLength)"),
        ("8=FIX.4.4|", "expected 8 (BeginString)"),
        ("8=FIX.4.4|9=0|10=1|", "expected 8 (BeginString)"),
        (framed(ORDER + "9=5|"), "got 9 elsewhere"),
        (framed(ORDER + "10=5|"), "got 10 elsewhere"),
        (framed(ORDER + "35=G|"), "expected 35 once"),
        (framed(ORDER + "8=FIX.4.4|"), "expected 8 once"),
    ],
)
def test_a_wrong_frame_is_refused(wrong: str, sentence: str) -> None:
    """A message with BeginString must have a right length and sum, each in its position."""
    assert sentence in refusal(wrong)


SESSION = FixSession(FixOptions(Schema(FIX, '{"separator":"|","names":{"35":"MsgType"}}')))


def test_a_record_with_a_begin_string_can_be_framed() -> None:
    """Without one it needs nothing."""
    SESSION.check({"11": "1"})
    SESSION.check({"8": "FIX.4.4", "MsgType": "D"})


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"8": "FIX.4.4", "MsgType": "D", "9": "5"}, "expected no '9': 9 is computed"),
        ({"11": "1", "10": "000"}, "expected no '10': 10 is computed"),
        ({"8": "FIX.4.4"}, "expected one text in 'MsgType'"),
        ({"8": {"$base64": "/w=="}, "MsgType": "D"}, "expected one text in '8'"),
    ],
)
def test_a_record_that_can_not_be_framed_is_refused(document: dict[str, object], sentence: str) -> None:
    """By the names of its fields."""
    with pytest.raises(SowlineError) as caught:
        SESSION.check(document)
    assert caught.value.reason == "bad message"
    assert sentence in caught.value.message


def test_a_frame_has_the_length_and_the_sum() -> None:
    """They are taken off again. Fields of the header come first, if there is one."""
    message = SESSION.framed("FIX.4.4", b"35=D|11=1|")
    assert message.decode() == framed("8=FIX.4.4|35=D|11=1|")
    fields = ["8", "9", "35", "11", "10"], ["FIX.4.4", "10", "D", "1", message[-4:-1].decode()]
    assert SESSION.unframed(message, fields) == (["8", "35", "11"], ["FIX.4.4", "D", "1"])
    assert SESSION.is_arranged({"8": "", "MsgType": "", "49": "", "11": ""})
    assert not SESSION.is_arranged({"8": "", "MsgType": "", "11": "", "49": ""})
    assert SESSION.is_arranged({"11": "", "49": ""})
