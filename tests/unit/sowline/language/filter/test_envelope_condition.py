"""EmoDB conditions in filters: they see a document, its intrinsics, and its tags."""

from typing import Any

import pytest

from sowline.language.emodb import Intrinsics, compile_condition
from sowline.language.filter.envelope_condition import meeting
from sowline.language.filter.metadata import Metadata


def envelope(**facts: Any) -> dict[str, Any]:
    """Return the envelope of a document `{"a": 1}` with these facts."""
    return {**Metadata(**facts)._asdict(), "document": {"a": 1}}


@pytest.mark.parametrize(
    ("condition", "met"),
    [
        ('{..,"a":1}', True),
        ('{..,"a":2}', False),
        ('{..,"~tags":contains("new")}', True),
        ('{..,"~tags":~}', False),
    ],
)
def test_a_condition_sees_the_document_and_its_tags(condition: str, met: bool) -> None:
    """The tags are a field of the document for it."""
    assert meeting(compile_condition(condition))(envelope(tags=("new",))) is met


def test_tags_that_are_absent_are_undefined() -> None:
    """There is no empty list of them."""
    assert meeting(compile_condition('{..,"~tags":~}'))(envelope())


def test_intrinsics_are_those_of_the_document() -> None:
    """A record that is no document has its SOW key and its topic."""
    is_k = meeting(compile_condition('intrinsic("~id":"k")'))
    assert is_k(envelope(intrinsics=Intrinsics(id="k"), sow_key="other"))
    assert is_k(envelope(sow_key="k"))
    assert meeting(compile_condition('intrinsic("~table":"orders")'))(envelope(topic="orders"))
