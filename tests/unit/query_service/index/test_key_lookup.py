"""The key lookup: which SOW keys a filter asks for, and that they are all that may match."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.config.topic_definition import TopicDefinition
from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.language.filter import compile_filter
from sowline.language.filter.tree import Comparison, Field, Literal
from sowline.model.key import key_text, sow_key
from sowline.model.path import Path
from sowline_query_service.index.key_lookup import sow_keys_of


def topic(key: str = "/id") -> TopicDefinition:
    """Return the definition of a topic of these key fields."""
    return parse_topics(f"topics: [{{name: t, key: {key}}}]").topics[0]


def keys(*texts: str) -> set[bytes]:
    """Return the SOW keys of key texts."""
    return {sow_key(b"t\0", text) for text in texts}


def asked(filter: str, key: str = "/id") -> set[bytes] | None:
    """Return the SOW keys that a filter asks for."""
    found = sow_keys_of(compile_filter(filter).tree, topic(key))
    if found is None:
        return None
    assert len(found) == len(set(found))
    return set(found)


ONE_FIELD: list[tuple[str, set[bytes]]] = [
    ("/id = 'a'", keys("a")),
    ("'a' = /id", keys("a")),
    ("/id IN ('a', 'b', 'a')", keys("a", "b")),
    ("/id = 'a' AND /n > 1", keys("a")),
    ("/id IN ('a', 'b') AND /id = 'c'", keys("c")),
    ("/id = '05'", keys("05", "5")),
    ("/id = '5.0'", keys("5.0", "5")),
    ("/id = '5.5'", keys("5.5")),
    ("/id = '1'", keys("1", "true")),
    ("/id = '0.0'", keys("0.0", "0", "false")),
    ("/id = 'true'", keys("true")),
    ("/id = '9007199254740993'", keys("9007199254740993")),
    ("/id = '1e400'", keys("1e400")),
]


@pytest.mark.parametrize(("filter", "expected"), ONE_FIELD)
def test_strings_name_keys(filter: str, expected: set[bytes]) -> None:
    """A string is the key of itself, and of the integer or boolean that it spells."""
    assert asked(filter) == expected


@pytest.mark.parametrize(
    "filter",
    [
        "",
        "/id = 5",
        "/id = ''",
        "/id IN ('a', 5)",
        "/id IN ('a', /b)",
        "/id != 'a'",
        "NOT /id = 'a'",
        "/id = 'a' OR /id = 'b'",
        "/id LIKE 'a'",
        "/other = 'a'",
    ],
)
def test_other_filters_name_none(filter: str) -> None:
    """Those that ask for more than strings, or not for all records of the keys."""
    assert asked(filter) is None


def test_all_key_fields_are_asked_for() -> None:
    """Of a key of several fields, every combination of what the filter allows."""
    both = "[/a, /b/c]"
    assert asked("/a = 'x'", both) is None
    assert asked("/b/c IN ('1', 'z') AND /a = 'x'", both) == keys('["x","1"]', '["x","true"]', '["x","z"]')


def test_too_many_combinations_name_none() -> None:
    """A look at the records is as quick then."""
    items = ", ".join(f"'k{number}'" for number in range(101))
    assert asked(f"/a IN ({items}) AND /b IN ({items})", "[/a, /b]") is None
    found = asked(f"/a IN ({items})", "/a")
    assert found is not None
    assert len(found) == 101


def test_a_key_field_may_be_called_as_no_path_is() -> None:
    """A filter asks for it between brackets; other filters are not disturbed."""
    assert asked("[/a$b] = 'x'", "'/a$b'") == keys("x")
    assert asked("/c = 'x'", "'/a$b'") is None


def test_what_no_record_can_be_called_is_left_out() -> None:
    """A string that has no UTF-8 is no key's."""
    tree = Comparison("=", Field(Path(("id",))), Literal("\ud800"))
    assert sow_keys_of(tree, topic()) == []


VALUES = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-2, 2),
    st.booleans(),
    st.sampled_from(["1", "01", "-0", "1e3", "1000", "true", "TRUE", " 1", "0x1", "\x00", "é", "9" * 20]),
)


@given(VALUES, VALUES, st.lists(VALUES.map(str), min_size=1, max_size=4))
def test_every_record_that_matches_is_named(one: object, two: object, texts: list[str]) -> None:
    """Whatever its key fields hold: the filter never matches a record whose key isn't among those it asks for."""
    document = {"a": one, "b": two}
    items = ", ".join("'" + text + "'" for text in texts)
    condition = compile_filter(f"/a IN ({items}) AND /b = '{texts[0]}'")
    definition = topic("[/a, /b]")
    if condition.matches(document):
        found = sow_keys_of(condition.tree, definition)
        assert found is not None
        assert sow_key(definition.declared.domain_prefix, key_text(document, definition.key_paths)) in found


def test_fractions_are_no_keys() -> None:
    """So no string has to be looked up as one."""
    with pytest.raises(SowlineError):
        key_text({"id": 1.0}, topic().key_paths)
