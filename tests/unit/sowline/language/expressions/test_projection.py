"""Projections and groupings as texts: what they are made of, what is canonical, what is refused."""

import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.language.expressions.projection import (
    AGGREGATES,
    CHARS_MAX,
    FIELDS_MAX,
    GROUPING_PATHS_MAX,
    OUTPUT_LEVELS_MAX,
    GroupingError,
    ProjectedField,
    ProjectionError,
    parse_grouping,
    parse_projection,
    prepare_projection,
)
from sowline.language.filter.parse import parse
from sowline.model.path import Path
from tests.examples import examples


def refused(text: str) -> ProjectionError:
    """The error that the text is refused with."""
    with pytest.raises(ProjectionError) as error:
        parse_projection(text)
    return error.value


def outputs(text: str) -> list[str]:
    """The output paths of a projection."""
    return [str(Path(field.output)) for field in parse_projection(text).fields]


def test_a_field_is_an_expression_and_a_path() -> None:
    """Before AS stands an expression of the filter language, behind it where the result goes."""
    assert parse_projection("SUM(/qty) * 2 AS /x/total").fields == (
        ProjectedField(parse("SUM(/qty) * 2"), ("x", "total")),
    )


def test_a_bare_path_is_itself() -> None:
    """`/a/b` is short for `/a/b AS /a/b`."""
    assert parse_projection("/a/b") == parse_projection("/a/b AS /a/b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GROUP_CONCAT(/a, ' as /x, ') AS /y, /b", ["/y", "/b"]),
        (r"CONCAT('it\'s, ', /a) AS /y, /b", ["/y", "/b"]),
        ('CONCAT("\'), ", /a) AS /y', ["/y"]),
        (r"CONCAT(r'\', /a) AS /y, /b", ["/y", "/b"]),
        ("IF(/a IN (1, 2), MIN(/b), (3)) AS /y", ["/y"]),
        ("[/x as y, (] AS /y, [/p, q]", ["/y", "[/p, q]"]),
        ("/as, /a-as, /x.as AS /as-as", ["/as", "/a-as", "/as-as"]),
        ("/a as /b,/c\tAs\n/d", ["/b", "/d"]),
        ("(/a)as/b", ["/b"]),
        ("/a / /as AS /b", ["/b"]),
        ("/r LIKE r'x, y' AS /b", ["/b"]),
    ],
)
def test_commas_and_as_count_only_outside(text: str, expected: list[str]) -> None:
    """What stands in strings, parentheses, brackets and names divides nothing."""
    assert outputs(text) == expected


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("sum( /a )  as /b", "SUM(/a) AS /b"),
        ("/a AS /a , /b/c", "/a, /b/c"),
        ("(1 + 2) * count(1) AS [/no name]", "(1 + 2) * COUNT(1) AS [/no name]"),
        ('Group_Concat(/a, "; ") as /b', "GROUP_CONCAT(/a, '; ') AS /b"),
    ],
)
def test_the_text_is_canonical(text: str, canonical: str) -> None:
    """Equal projections have equal texts, which read back as themselves."""
    projection = parse_projection(text)
    assert projection.text == str(projection) == canonical
    assert parse_projection(canonical) == projection
    assert hash(parse_projection(canonical)) == hash(projection)
    assert pickle.loads(pickle.dumps(projection)) == projection


def test_different_constants_are_different_projections() -> None:
    """1 and 1.0 are equal numbers, but not the same expression."""
    assert parse_projection("SUM(/a) / 2 AS /b") != parse_projection("SUM(/a) / 2.0 AS /b")


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1),
        (" , /a", 2),
        ("/a,", 4),
        ("AS /b", 1),
        ("/a, SUM(/b)", 12),
        ("/a, SUM(/b) AS b", 16),
        ("/a, SUM(/b) AS /b c", 19),
        ("/a AS /b AS /c", 10),
        ("/a, 'x AS /b", 5),
        ("/a, r'x AS /b", 5),
        ("/a, [/x AS /b", 5),
        ("/a, SUM(/b)) AS /c", 12),
        ("/a, NOSUCH(/b) AS /c", 5),
        ("/a, COUNT() AS /c", 5),
        ("/a, SUM(/b, ',') AS /c", 5),
        ("GROUP_CONCAT(/b, 1) AS /c", 1),
        ("GROUP_CONCAT(/b, ',', 1) AS /c", 1),
        ("1 + SUM(IF(COUNT(1) > 1, 1, 0)) AS /c", 12),
        ("/a LIKE '(' AS /b", 9),
        ("SUM(/a LIKE '(') AS /b", 13),
        ("SUM(NOSUCH(/a)) AS /b", 5),
        ("SOW_KEY() AS /key", 1),
        ("MAX(UNIX_TIMESTAMP()) AS /now", 1),
        ("/a AS /x, /b AS /y/x, /c AS /y", 23),
        ("/a AS /x, /b AS /x", 11),
        ("/a[1] AS /x[1]", 10),
    ],
)
def test_refused_with_reason_and_column(text: str, column: int) -> None:
    """What is no projection is refused, and the column says where the trouble begins."""
    error = refused(text)
    assert (error.reason, error.column) == ("invalid projection", column)
    assert "filter" not in error.message


def test_limits() -> None:
    """A projection has limits, each the last that is taken."""
    fields = [f"/f{n}" for n in range(FIELDS_MAX)]
    assert len(parse_projection(",".join(fields)).fields) == FIELDS_MAX
    assert f"at most {FIELDS_MAX} fields" in refused(",".join([*fields, "/x"])).message
    path = "/a" * OUTPUT_LEVELS_MAX
    assert outputs(path) == [path]
    assert f"at most {OUTPUT_LEVELS_MAX} names" in refused(path + "/a").message
    text = "/a AS /" + "b" * (CHARS_MAX - 7)
    assert outputs(text) == [text[6:]]
    assert f"at most {CHARS_MAX} characters" in refused(text + "b").message


@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates_in_any_case(name: str) -> None:
    """Names of aggregates may be written in either case, as those of functions."""
    assert parse_projection(f"{name.lower()}(/a) AS /b") == parse_projection(f"{name}(/a) AS /b")


def test_what_changes_by_itself_is_reported() -> None:
    """A projection names the functions for which it can't be kept live."""
    assert parse_projection("SUM(/a) AS /b, STRFTIME('%Y', /t) AS /c").nondeterministic == ()
    text = "UNIX_TIMESTAMP() - MAX(/t) AS /age, UNIX_TIMESTAMP() AS /now"
    assert parse_projection(text).nondeterministic == ("UNIX_TIMESTAMP",)


def test_grouping_is_a_list_of_paths() -> None:
    """A grouping's paths are those of filters, names in brackets and subscripts included."""
    paths = parse_grouping(" /a, [/b, c]/d ,/legs[0]/x")
    assert [str(path) for path in paths] == ["/a", "[/b, c]/d", "/legs[0]/x"]


@pytest.mark.parametrize(
    ("text", "column"),
    [("", 1), ("/a,,/b", 4), ("a", 1), ("/a, 'b'", 5), ("/a /b", 4), ("/a, /b, /a", 9), ("SUM(/a)", 1)],
)
def test_no_grouping(text: str, column: int) -> None:
    """What is no list of different paths is refused."""
    with pytest.raises(GroupingError) as error:
        parse_grouping(text)
    assert (error.value.reason, error.value.column) == ("invalid grouping", column)


def test_groupings_are_limited() -> None:
    """So many paths, and no more."""
    paths = [f"/a{n}" for n in range(GROUPING_PATHS_MAX)]
    assert len(parse_grouping(",".join(paths))) == GROUPING_PATHS_MAX
    with pytest.raises(GroupingError, match=f"at most {GROUPING_PATHS_MAX} paths"):
        parse_grouping(",".join([*paths, "/x"]))


pieces = st.sampled_from(
    [
        "/a",
        "/b/c",
        "[/d e]",
        "/as",
        " AS ",
        " as ",
        ",",
        "(",
        ")",
        "'",
        '"',
        "\\",
        "r'",
        "SUM(/a)",
        "1",
        " ",
        "[",
    ]
)


@examples(300)
@given(st.lists(pieces, max_size=12).map("".join))
@example("r'\\' AS /a")
@example("/a AS /b,\\")
def test_any_text_is_a_projection_or_refused(text: str) -> None:
    """No text breaks the parser; what it takes reads back from its canonical text."""
    try:
        projection = parse_projection(text)
    except ProjectionError as refusal:
        column = refusal.column
    else:
        column = 1
        assert parse_projection(projection.text) == projection
    assert 1 <= column <= len(text) + 1


@given(st.lists(pieces, max_size=12).map("".join))
def test_any_text_is_a_grouping_or_refused(text: str) -> None:
    """No text breaks this parser either."""
    try:
        paths = parse_grouping(text)
    except GroupingError as refusal:
        column = refusal.column
    else:
        column = 1
        assert parse_grouping(", ".join(map(str, paths))) == paths
    assert 1 <= column <= len(text) + 1


def test_a_projection_shows_fields_of_the_record() -> None:
    """A field that is taken over unchanged is shown at its output path, with all that is below it."""
    projection = parse_projection("/a AS /x, /a AS /y/z, /b + 1 AS /b, /c")
    assert projection.shown_at(("a", "id")) == (("x", "id"), ("y", "z", "id"))
    assert projection.shown_at(("b",)) == ()
    assert projection.shown_at(("c",)) == (("c",),)


def test_the_key_fields_of_a_result() -> None:
    """They are where the projection shows the grouping fields, or else at their own paths."""
    projection = parse_projection("/a AS /x, SUM(/n) AS /sum")
    assert projection.key_fields(parse_grouping("/a, /b/c")) == (("x",), ("b", "c"))


@pytest.mark.parametrize("text", ["/a AS /x", "NOSUCH(/a) AS /x"])
def test_a_prepared_projection_is_read_as_ever(text: str) -> None:
    """What is wrong with it is said when it is used."""
    prepare_projection(text)
    if text.startswith("/"):
        assert outputs(text) == ["/x"]
    else:
        assert "expected a known function" in refused(text).message
