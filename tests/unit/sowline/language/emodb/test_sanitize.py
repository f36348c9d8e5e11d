"""What a delta may write: objects without intrinsics, in text that UTF-8 can hold."""

import pytest

from sowline.errors import SowlineError
from sowline.language.emodb.compiled import parse_delta
from sowline.language.emodb.sanitize import sanitized


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ('{"a":1,"~id":"x"}', '{"a":1}'),
        ('{..,"~version":~,"a":{..,"~id":1}}', '{..,"a":{..,"~id":1}}'),
        ('if {..,"a":1} then {"~tags":[]} else {..,"~id":1} end', 'if {..,"a":1} then {} else {..} end'),
        ('if ~ then {"~id":1,"a":1} end', 'if ~ then {"a":1} end'),
    ],
)
def test_intrinsics_are_dropped(text: str, clean: str) -> None:
    """Only those at the top level are intrinsics."""
    assert sanitized(parse_delta(text)).text == clean


@pytest.mark.parametrize(
    "text", ["~", "..", '{"a":1}', '{..,"a":~}?', "if ~ then {} else .. end", r'{"a":"\u00e9"}']
)
def test_a_clean_delta_stays_the_same(text: str) -> None:
    """It is not copied."""
    delta = parse_delta(text)
    assert sanitized(delta) is delta


@pytest.mark.parametrize(
    "text", ["1", "[{}]", "(..,1)", "if ~ then {} elif + then 1 end", "if ~ then {} else null end"]
)
def test_a_document_is_an_object(text: str) -> None:
    """No branch may make anything else of it."""
    with pytest.raises(SowlineError) as refused:
        sanitized(parse_delta(text))
    assert refused.value.reason == "not an object"


def test_half_of_a_surrogate_pair_is_no_text() -> None:
    """No body can contain it; both halves are a character."""
    with pytest.raises(SowlineError, match=r"got \\ud83d alone"):
        sanitized(parse_delta(r'{"a":"\ud83d"}'))
    assert sanitized(parse_delta(r'{"a":"\ud83d\ude00"}')).text == '{"a":"\U0001f600"}'
