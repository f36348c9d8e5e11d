"""Computed fields as texts, and what a stage makes of a message."""

import json
import pickle
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.language.expressions.enrichment import (
    CHARS_MAX,
    OUTPUT_LEVELS_MAX,
    ComputedField,
    EnrichmentError,
    Stage,
    overlapping,
    parse_enrichment,
    parse_preprocessing,
)
from sowline.language.filter import UNKNOWN, Metadata
from sowline.language.filter.parse import parse
from sowline.language.filter.tree import Field, FieldOf, Node, rebuilt
from sowline.model.path import Document, Path, parse_path
from tests.examples import examples
from tests.property.filter_reference import reference_values

NOW = 1_234_567_890.5


def refused(text: str, before_the_key: bool = False) -> EnrichmentError:
    """The error that the text is refused with."""
    with pytest.raises(EnrichmentError) as error:
        (parse_preprocessing if before_the_key else parse_enrichment)(text)
    return error.value


def enriched(
    body: bytes, *fields: str, previous: Document | None = None, about: Metadata = UNKNOWN
) -> tuple[bytes, Document]:
    """What enrichment makes of a body, as text and as document."""
    document: Document = orjson.loads(body)
    made = Stage(map(parse_enrichment, fields)).apply(body, document, about, NOW, previous)
    return made, document


# texts


def test_a_field_is_an_expression_a_path_and_hints() -> None:
    """Before AS stands an expression of the filter language, behind it where the value goes."""
    assert parse_enrichment("/qty * 2 AS /x/total HINT OPTIONAL HINT SET_CURRENT") == ComputedField(
        parse("/qty * 2"), ("x", "total"), optional=True, set_current=True
    )
    assert parse_preprocessing("/a AS /b") == ComputedField(parse("/a"), ("b",))


def test_of_previous_is_of_enrichment_only() -> None:
    """There it stays what it is; in preprocessing it is refused, and OF CURRENT is the path itself."""
    field = parse_enrichment("/a OF PREVIOUS + /b OF CURRENT AS /c")
    assert field == parse_enrichment("/a of previous + /b as /c")
    assert field.text == "/a OF PREVIOUS + /b AS /c"
    assert refused("1 + /a OF PREVIOUS AS /c", before_the_key=True).column == 5
    assert parse_preprocessing("/a OF CURRENT AS /c") == parse_preprocessing("/a AS /c")


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1),
        ("/a", 3),
        ("AS /b", 1),
        ("/a AS", 6),
        ("/a AS /b AS /c", 10),
        ("/a, /b AS /c", 3),
        ("(/a AS /b)", 5),
        ("/a AS /b[1]", 7),
        ("/a AS /b[0]/c", 7),
        ("/a AS [/]", 7),
        ("/a AS /b HINT", 14),
        ("/a AS /b HINT OPTIONAL SET_CURRENT", 24),
        ("/a OF PREVIOUS OF PREVIOUS AS /b", 16),
        ("(/a + 1) OF PREVIOUS AS /b", 10),
        ("'x AS /b", 1),
        ("NOSUCH(/a) AS /b", 1),
        ("TODAY('Z', 1) AS /b", 1),
        ("1 + TOPIC_NAME(/a) AS /b", 5),
        ("/a LIKE '(' AS /b", 9),
        ("/a OF PREVIOUS LIKE '(' AS /b", 21),
        ("IF(/a, MAX(/b), 1) AS /b", 8),
        ("LAST_READ() AS /b", 1),
        (" INSTANCE_NAME() AS /b", 2),
        ("1 AS " + "/a" * (OUTPUT_LEVELS_MAX + 1), 6),
        ("1 AS /" + "a" * CHARS_MAX, CHARS_MAX + 1),
    ],
)
def test_what_is_no_field(text: str, column: int) -> None:
    """It is refused with the place of the trouble, in either stage."""
    for before_the_key in (True, False):
        error = refused(text, before_the_key)
        assert (error.reason, error.column) == ("bad configuration", column)


def test_the_longest_path_and_text_fit() -> None:
    """The limits themselves are allowed."""
    assert len(parse_enrichment("1 AS " + "/a" * OUTPUT_LEVELS_MAX).output) == OUTPUT_LEVELS_MAX
    assert len(parse_enrichment("1 AS /" + "a" * (CHARS_MAX - 6)).text) == CHARS_MAX


@pytest.mark.parametrize(
    ("one", "other", "do"),
    [
        ("/a", "/a", True),
        ("/a", "/a/b", True),
        ("/a/b/c", "/a", True),
        ("/a", "/b", False),
        ("/a/b", "/a/c", False),
    ],
)
def test_overlapping(one: str, other: str, do: bool) -> None:
    """Paths overlap that are the same, or where one lies in the other."""
    paths = [[str(step) for step in parse_path(text).steps] for text in (one, other)]
    assert overlapping(*paths) is do
    assert overlapping(*reversed(paths)) is do


def test_a_stage_can_be_sent_to_another_process() -> None:
    """It comes back as an equal one, which computes the same."""
    stage = Stage([parse_enrichment("/a + 1 AS /b")])
    copy = pickle.loads(pickle.dumps(stage))
    assert (copy == stage, hash(copy) == hash(stage), copy is stage) == (True, True, False)
    assert copy.apply(b'{"a":1}', {"a": 1}, UNKNOWN) == b'{"a":1,"b":2}'
    assert stage != Stage([parse_enrichment("/a + 1.0 AS /b")])
    assert stage != "/a + 1 AS /b"


# messages


def test_other_fields_keep_their_exact_text() -> None:
    """Numbers that no double and no 64 bits hold come through, also beside a computed field."""
    body = b'{"n": 123456789012345678901234567890, "m": {"f": 1.50e0, "g": 0}, "t": "\\u00e9"}'
    made, document = enriched(body, "1 AS /m/g", "'x' AS /k", "NULL AS /t HINT OPTIONAL")
    assert made == b'{"n":123456789012345678901234567890,"m":{"f":1.50e0,"g":1},"k":"x"}'
    assert document == json.loads(made) | {"n": 123456789012345678901234567890.0}


def test_a_message_of_which_nothing_is_computed_is_untouched() -> None:
    """If all is left out, and none of it came, the bytes are the same."""
    body = b'{ "a" : 1.0 }'
    assert enriched(body, "/b AS /c HINT OPTIONAL", "/b AS /a/d HINT OPTIONAL")[0] is body


def test_integers_of_64_bits_are_exact() -> None:
    """Signed or unsigned, they are written as they are; one beyond is a double."""
    body = b'{"a":18446744073709551615,"b":-9223372036854775808}'
    made, _ = enriched(body, "/a AS /c", "/b AS /d", "/a + 1 AS /e")
    assert (
        made == body[:-1] + b',"c":18446744073709551615,"d":-9223372036854775808,"e":1.8446744073709552e+19}'
    )


def test_facts_and_the_time() -> None:
    """What is known beside the message is computed with, and the time is what it is said to be."""
    about = Metadata(sow_key="17", topic="t", bookmark="t:0@5", size=99, updated=5.5, correlation="c")
    made, _ = enriched(
        b"{}",
        "CONCAT(SOW_KEY(), TOPIC_NAME(), BOOKMARK(), CORRELATION_ID()) AS /a",
        "MESSAGE_SIZE() AS /b",
        "UNIX_TIMESTAMP() - LAST_UPDATED() AS /c",
        "TODAY('+01:00') AS /d",
        "CONCAT(TODAY(), TODAY_UTC()) AS /e",
        "SOW_KEY_HASH() = CRC64('17') AS /f",
        about=about,
    )
    assert json.loads(made) == {
        "a": "17tt:0@5c",
        "b": 99,
        "c": NOW - 5.5,
        "d": "2009-02-14",
        "e": "2009-02-132009-02-13",
        "f": True,
    }


def test_a_field_of_the_name_of_a_fact_is_the_messages() -> None:
    """A path never leads to what is known beside the message."""
    fields = ["/now AS /a", "/previous/x AS /b", "/document/x AS /c", "/topic AS /d"]
    made, _ = enriched(b"{}", *fields, previous={"x": 1}, about=Metadata(topic="t"))
    assert json.loads(made) == dict.fromkeys("abcd")


def test_the_previous_record_is_left_alone() -> None:
    """It is read, through arrays too, and never written to."""
    previous = {"a": {"b": [1, 2]}}
    made, _ = enriched(
        b'{"a":{"b":3}}', "/a/b OF PREVIOUS AS /a/b", "/a/b[1] OF PREVIOUS AS /c", previous=previous
    )
    assert json.loads(made) == {"a": {"b": [1, 2]}, "c": 2}
    assert previous == {"a": {"b": [1, 2]}}


def test_who_asks_for_the_previous_record() -> None:
    """Only a stage with such a field needs it, so that it is not read for nothing."""
    assert Stage([parse_enrichment("IF(/a OF PREVIOUS > 1, 1, 2) AS /b")]).needs_previous
    assert not Stage([parse_enrichment("/a OF CURRENT AS /b")]).needs_previous


def test_who_asks_for_metadata() -> None:
    """Only a stage with such a field needs it: to make it takes as long as to compute a simple field."""
    assert Stage(map(parse_enrichment, ["/a AS /b", "CONCAT(/a, SOW_KEY()) AS /c"])).needs_about
    assert not Stage([parse_enrichment("UNIX_TIMESTAMP() AS /b")]).needs_about


def test_a_deep_message_can_be_computed_into() -> None:
    """However deep a body may be, the path of a field goes only so far into it."""
    deep = b'{"a":' * 400 + b"1" + b"}" * 400
    made, _ = enriched(deep, "1 AS " + "/a" * 30 + "/b")
    assert made == deep[:-31] + b',"b":1' + b"}" * 31


# against a slow reference


FIELDS = [
    "/a + 1 AS /a",
    "/b AS /a",
    "/a AS /b",
    "/a AS /c/d",
    "/c/d OF PREVIOUS AS /c/e",
    "COALESCE(/a OF PREVIOUS, 0) + 1 AS /n",
    "/c AS /e",
    "IF(/b IN (1, 'x'), /b, NULL) AS /b",
    "/e IS NULL AS /c",
    "/a * '2' AS /f/g/h",
    "EXP(/b * 1000) AS /f/i",
    "/e/a OF PREVIOUS AS /e/a",
    "CONCAT(/a, '|', /b) AS [/odd name]",
]
HINTS = ["", " HINT OPTIONAL", " HINT SET_CURRENT", " HINT SET_CURRENT HINT OPTIONAL"]


def stages() -> st.SearchStrategy[list[str]]:
    """Lists of fields that don't overlap."""
    some = st.lists(st.tuples(st.sampled_from(FIELDS), st.sampled_from(HINTS)).map("".join), max_size=5)
    return some.map(without_overlaps)


def without_overlaps(texts: list[str]) -> list[str]:
    """The fields but for those that overlap one before them."""
    kept: list[ComputedField] = []
    for field in map(parse_enrichment, texts):
        if not any(overlapping(field.output, other.output) for other in kept):
            kept.append(field)
    return [field.text for field in kept]


scalars = st.sampled_from([None, True, 1, 7, 0.5, "", "x", "3"])
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abde"), inner, max_size=3),
    max_leaves=6,
)
documents = st.dictionaries(st.sampled_from(["a", "b", "c", "e", "f", "n", "odd name"]), values, max_size=6)


def in_states(node: Node) -> Node:
    """The tree of a document that holds both states."""
    if isinstance(node, Field):
        return Field(Path(("current", *node.path.steps)))
    if isinstance(node, FieldOf):
        return Field(Path(("before", *node.path.steps)))
    return rebuilt(node, in_states)


def reference(message: Any, previous: Any, texts: list[str]) -> Any:
    """What enrichment makes of a message: each field on copies, one after the other."""
    current, results = copied(message), []
    for field in map(parse_enrichment, texts):
        found = reference_values(in_states(field.expression), {"current": current, "before": previous or {}})
        is_array = isinstance(field.expression, Field | FieldOf) and reaches_array(
            field.expression, current, previous
        )
        value: Any = found if is_array else found[0]
        if isinstance(value, float) and (value != value or abs(value) == float("inf")):
            value = None
        results.append((field, value))
        if field.set_current:
            current = with_field(current, field, value)
    for field, value in results:
        message = with_field(message, field, value)
    return message


def reaches_array(node: Field | FieldOf, current: Any, previous: Any) -> bool:
    """Whether the path leads to an array that isn't empty."""
    document = current if isinstance(node, Field) else previous or {}
    return isinstance(node.path.read(document), list)


def copied(document: Any) -> Any:
    """A document of its own."""
    return json.loads(json.dumps(document))


def with_field(document: Any, field: ComputedField, value: Any) -> Any:
    """A copy of the document with the field, or without it if it is to be left out."""
    document = copied(document)
    here = document
    for name in field.output[:-1]:
        if not isinstance(here.get(name), dict):
            if value is None and field.optional:
                return document
            here[name] = {}
        here = here[name]
    if value is None and field.optional:
        here.pop(field.output[-1], None)
    else:
        here[field.output[-1]] = value
    return document


@examples(300)
@given(documents, st.none() | documents, stages())
@example({"a": 1}, None, ["/a + 1 AS /a HINT SET_CURRENT", "/a AS /b"])
@example({"c": 5}, None, ["1 AS /c/d HINT SET_CURRENT", "/x AS /c/e HINT OPTIONAL"])
def test_agrees_with_the_reference(message: Any, previous: Any, texts: list[str]) -> None:
    """A stage makes of any message what the reference makes of it, of its text and its document alike."""
    made, document = enriched(orjson.dumps(message), *texts, previous=previous)
    expected = reference(message, previous, texts)
    assert orjson.dumps(orjson.loads(made), option=orjson.OPT_SORT_KEYS) == orjson.dumps(
        expected, option=orjson.OPT_SORT_KEYS
    )
    assert document == expected
    assert [parse_enrichment(text).text for text in texts] == texts
