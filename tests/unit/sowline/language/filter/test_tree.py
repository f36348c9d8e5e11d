"""The tree of a filter: canonical forms, the nodes below one, and trees with changed operands."""

from sowline.language.filter.compiled import compile_filter
from sowline.language.filter.fold import folded
from sowline.language.filter.parse import parse
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
    Not,
    Or,
    children,
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
