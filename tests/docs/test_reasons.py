"""The page of reason codes: made from `contract/reasons/`, complete, with examples that the code gives."""

import re
from collections.abc import Callable

import pytest

from contract.reasons import REASONS
from contract.reasons_page import reasons_page
from sowline.commands.pipeline_row import BAD_ROW
from sowline.errors import SowlineError
from sowline.language.emodb.compiled import compile_condition, parse_delta
from sowline.language.expressions.order import parse_order
from sowline.language.expressions.projection import parse_grouping, parse_projection
from sowline.language.filter import compile_filter
from sowline.model.body import read_object
from sowline.model.path import parse_path
from sowline.wire.options import parse_options
from sowline_ingest.frames import CHECK_FAILED
from tests.docs.prose import sentences_of
from tests.docs.reasons import raised

BY_CODE = {reason.code: reason for reason in REASONS}
LANGUAGES: dict[str, Callable[[], object]] = {
    "bad condition": lambda: compile_condition('in("a"'),
    "bad delta": lambda: parse_delta('{..,"qty":}'),
    "bad filter": lambda: compile_filter("/qty >> 10"),
    "bad path": lambda: parse_path("/order//qty"),
    "invalid grouping": lambda: parse_grouping("/desk,/desk"),
    "invalid options": lambda: parse_options("rate=fast"),
    "invalid order by": lambda: parse_order("/qty UP"),
    "invalid projection": lambda: parse_projection("SUM(/qty) AS /sum, MAX(/qty) AS /sum"),
    "not json": lambda: read_object(b'{"id": 1,,}'),
}
"""What parsers refuse: they make their messages of parts."""

OF_PIPELINES = {BAD_ROW, CHECK_FAILED}
"""Spark writes these dead letters; no error carries them."""

IMPERATIVE = re.compile(
    r"(?:Add|Ask|Begin|Change|Check|Choose|Compare|Connect|Copy|Correct|Define|Delete|"
    r"Discard|Do|Flatten|Follow|Free|Get|Give|Group|Install|Let|List|Name|Narrow|Omit|"
    r"Open|Pass|Publish|Put|Read|Register|Remove|Report|Request|Restart|Restore|Retry|Run|"
    r"See|Send|Set|Start|Stop|Subscribe|Use|Wait)\b",
    re.IGNORECASE,
)
CURE_WORDS_MAX = 25

_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
_CONDITION = re.compile(r"^(?:For|If|In|To) .*?, ")


def test_every_reason_is_on_the_list() -> None:
    """Each that the product raises, and no other, once."""
    assert len(BY_CODE) == len(REASONS)
    assert BY_CODE.keys() == raised().keys() | OF_PIPELINES


@pytest.mark.parametrize("code", sorted(BY_CODE.keys() - OF_PIPELINES - LANGUAGES.keys()))
def test_an_example_is_a_message_of_the_code(code: str) -> None:
    """A message that was rewritten needs another example."""
    assert any(message.fullmatch(BY_CODE[code].example) for message in raised()[code])


@pytest.mark.parametrize("code", sorted(LANGUAGES))
def test_an_example_of_a_language_is_real(code: str) -> None:
    """The parser gives exactly this message."""
    with pytest.raises(SowlineError) as error:
        LANGUAGES[code]()
    assert (error.value.reason, error.value.message) == (code, BY_CODE[code].example)


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_a_cure_says_what_to_do_next(code: str) -> None:
    """It is one or two short sentences, begins with an imperative (maybe behind a condition), and repeats nothing."""
    reason = BY_CODE[code]
    sentences = sentences_of(_LINK.sub(r"\1", reason.cure))
    assert len(sentences) in (1, 2)
    assert len(reason.cure.split()) <= CURE_WORDS_MAX
    assert IMPERATIVE.match(_CONDITION.sub("", sentences[0]))
    assert not [one for one in sentences if one.rstrip(".") in f"{reason.meaning} {reason.example}"]


def test_the_page_shows_every_cure() -> None:
    """A section ends with it."""
    sections = reasons_page().split("\n## ")[1:]
    assert [section.partition("**Fix:** ")[2].strip() for section in sections] == [
        reason.cure for reason in sorted(REASONS)
    ]
