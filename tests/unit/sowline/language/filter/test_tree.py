"""The tree of a filter: canonical forms, the nodes below one, and trees with changed operands."""

import pytest

from sowline.language.filter.compiled import compile_filter
from sowline.language.filter.fold import folded
from sowline.language.filter.parse import parse
from sowline.language.filter.printer import text_of
from sowline.language.filter.tree import (
    Affixed,
    And,
    Arithmetic,
    Comparison,
    Field,
    In,
    IsNaN,
    IsNull,
    Literal,
    Node,
    Not,
    Or,
    children,
    conjunction,
    disjunction,
    parts_of,
    paths_of,
    rebuilt,
    walk,
)
from sowline.model.path import Path


def test_a_tree_says_what_is_written() -> None:
    """The tree has one node per form, canonical, without parentheses."""
    one, two = (
        Comparison("=", Field(Path(("a",))), Literal(1)),
        Comparison("!=", Field(Path(("b",))), Literal(2)),
    )
    assert parse("(/a == 1) AND (/b <> 2)") == And((one, two))
    assert parse("/a NOT IN (1)") == Not(In(Field(Path(("a",))), (Literal(1),)))
    assert parse("/a NOT NULL") == parse("NOT /a IS NULL") == Not(IsNull(Field(Path(("a",)))))
    affixed = Affixed("BEGINS", Field(Path(("a",))), (Literal("x"), Literal(1)))
    assert parse("/a NOT BEGINS WITH ('x', 1)") == Not(affixed)
    assert parse("/a IS NOT NAN") == parse("NOT /a IS NAN") == Not(IsNaN(Field(Path(("a",)))))
    assert parse("1 - 2 + 3") == Arithmetic(Literal(1), (("-", Literal(2)), ("+", Literal(3))))
    assert parse("1 MOD 2") == parse("1 % 2")


def test_chains_of_logic_are_flat() -> None:
    """AND of ANDs is one AND, OR of ORs one OR, with or without parentheses."""
    assert parse("/a AND (/b AND /c) AND /d") == parse("((/a AND /b) AND /c) AND /d")
    tree = parse("/a OR (/b OR /c)")
    assert isinstance(tree, Or)
    assert len(tree.terms) == 3


def test_walk_meets_every_node() -> None:
    """`walk` gives a node, then all below it, in the order written."""
    tree = parse(
        "-/a + 1 BETWEEN /b AND 2 OR /c IN (/d) OR /e LIKE 'x' OR NOT /f IS NULL OR NOSUCH(/g) = 1"
        " OR /h ENDS WITH (/i, /j) OR /k IS NAN"
    )
    fields = [str(node.path) for node in walk(tree) if isinstance(node, Field)]
    assert fields == [f"/{name}" for name in "abcdefghijk"]
    assert children(Literal(1)) == ()


def test_different_kinds_of_number_are_different_filters() -> None:
    """`/a / 2` and `/a / 2.0` don't mean the same, and aren't equal."""
    assert compile_filter("/a / 2 = 1") != compile_filter("/a / 2.0 = 1")
    assert Literal(1) != Literal(True)
    assert Literal(1) == Literal(1)
    assert compile_filter("/a") != "/a"


def test_zeros_of_both_signs_are_two_literals() -> None:
    """They are equal numbers, and different texts: what is kept of one must not answer for the other."""
    minus, plus = (compile_filter(f"/a BEGINS WITH ({zero})").tree for zero in ("-0.0", "0.0"))
    assert folded(minus) != folded(plus)


def to_c(node: Node) -> Node:
    """Return the field `/c`, whatever the node."""
    return Field(Path(("c",)))


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("1", "1"),
        ("/a", "/a"),
        ("-/a", "-/c"),
        ("/a + 1 - 2", "/c + /c - /c"),
        ("/a < 1", "/c < /c"),
        ("/a BETWEEN 1 AND 2", "/c BETWEEN /c AND /c"),
        ("/a IN (1, 2)", "/c IN (/c, /c)"),
        ("/a ENDS WITH (1)", "/c ENDS WITH (/c)"),
        ("/a LIKE 'x'", "/c LIKE 'x'"),
        ("NOT /a", "NOT /c"),
        ("/a AND /b", "/c AND /c"),
        ("/a OR /b", "/c OR /c"),
        ("ABS(1)", "ABS(/c)"),
    ],
)
def test_a_node_is_rebuilt_from_changed_operands(text: str, changed: str) -> None:
    """A node without operands stays as it is."""
    assert text_of(rebuilt(parse(text), to_c)) == changed


def test_a_rebuilt_chain_is_flat() -> None:
    """An operand may become a chain of the same kind."""
    one, two = Field(Path(("a",))), Field(Path(("b",)))
    assert rebuilt(And((one, two)), lambda node: And((node, two))) == And((one, two, two, two))
    assert rebuilt(Or((one, two)), lambda node: Or((one, node))) == Or((one, one, one, two))


def test_a_chain_of_one_is_its_term() -> None:
    """AND and OR have two terms or more."""
    assert conjunction([Literal(1)]) == disjunction([Literal(1)]) == Literal(1)


def test_constants_in_lists_are_not_counted() -> None:
    """A list may have very many."""
    tree = parse("/a IN (1, 2, /b) OR /c + 1 > 2")
    assert parts_of(tree) == 9
    assert {str(path) for path in paths_of(tree)} == {"/a", "/b", "/c"}


def test_equal_literals_have_equal_hashes() -> None:
    """Those of other kinds are no duplicates."""
    assert len({Literal(1), Literal(1), Literal(1.0), Literal(True), Literal("1")}) == 4
