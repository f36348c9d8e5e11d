"""Filters that use a record's metadata, rewritten to filters on an envelope."""

from typing import Any

import pytest

from sowline.language.filter.compile import value
from sowline.language.filter.envelope import about_facts, enveloped, needs_about
from sowline.language.filter.metadata import Metadata
from sowline.language.filter.parse import parse, parse_enriched
from sowline.language.filter.printer import text_of


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("/a/b = 1", "/document/a/b = 1"),
        ("TOPIC_NAME() = 'orders'", "/topic = 'orders'"),
        ("SOW_KEY_HASH() > 1", "CRC64(/sow_key) > 1"),
        ("UPPER(/a) = 'X' AND 1 < 2", "UPPER(/document/a) = 'X' AND 1 < 2"),
    ],
)
def test_facts_become_fields(text: str, rewritten: str) -> None:
    """The fields of the document are one level further down."""
    assert text_of(enveloped(parse(text))) == rewritten


def test_an_enrichment_sees_the_previous_body() -> None:
    """It is a part of the envelope, like the current one."""
    tree = parse_enriched("/a OF PREVIOUS + /a OF CURRENT AS /b").expression
    assert text_of(enveloped(tree)) == "/previous/a + /document/a"


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("/a = 1", False),
        ("LAST_UPDATED() > 1", True),
        ("CONDITION('{..,\"a\":1}')", False),
        ('CONDITION(\'intrinsic("~id":"k")\')', True),
        ("CONDITION('{..,\"~tags\":~}')", True),
    ],
)
def test_what_needs_metadata(text: str, needs: bool) -> None:
    """A message function does, and a condition on intrinsics or tags."""
    assert needs_about(parse(text)) is needs


def test_a_tree_without_facts_is_compiled_once() -> None:
    """The closure for documents answers then, whatever the metadata."""
    closure = about_facts(lambda document: document["a"], compiled_in_vain, parse("/a"))
    assert closure({"a": 1}, Metadata(topic="orders")) == 1


def compiled_in_vain(tree: Any) -> Any:
    """Fail: nothing is to be compiled."""
    raise AssertionError("compiled in vain")


def test_a_tree_with_facts_is_asked_of_both() -> None:
    """The document, and what is known of it."""
    tree = parse("/a + MESSAGE_SIZE()")
    closure = about_facts(value(tree), value, tree)
    assert closure({"a": 1}, Metadata(size=41)) == 42
    assert closure({"a": 1}, Metadata()) is None
