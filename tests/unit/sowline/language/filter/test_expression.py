"""Expressions: the filter language where a value is due."""

import pickle

import pytest

from sowline.language.filter import Expression, FilterError, compile_expression
from sowline.language.filter.expression import compile_tree
from sowline.language.filter.parse import FILTER_CHARS_MAX, parse
from sowline.language.filter.tree import Call, Field, Node, rebuilt
from sowline.model.path import Path


def test_an_expression_has_a_value() -> None:
    """It gives values, conditions' verdicts, and a path's whole array."""
    document = {"qty": 3, "px": 2.5, "tags": ["a", "b"]}
    assert compile_expression("/qty * /px").value(document) == 7.5
    assert compile_expression("/qty > 2").value(document) is True
    assert compile_expression("/none > 2").value(document) is None
    assert compile_expression("/tags").value(document) == ["a", "b"]


def test_an_expression_tells_what_it_is() -> None:
    """Its text is canonical, it knows its paths, and equals every expression of the same tree."""
    expression = compile_expression(" (/a)+upper( /b )")
    assert str(expression) == "/a + UPPER(/b)"
    assert repr(expression) == "Expression('/a + UPPER(/b)')"
    assert {str(path) for path in expression.paths} == {"/a", "/b"}
    assert expression == compile_expression("/a + UPPER(/b)")
    assert expression != "/a + UPPER(/b)"
    assert len({expression, compile_expression("/a + UPPER(/b)")}) == 1
    assert pickle.loads(pickle.dumps(expression)) == expression


def test_equal_texts_are_compiled_once() -> None:
    """The same text gives the same expression again, from a cache that long texts stay out of."""
    assert compile_expression("/cached + 1") is compile_expression("/cached + 1")
    long = " + ".join(["/a"] * 2000)
    assert compile_expression(long) is not compile_expression(long)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1),
        ("  \n", 1),
        ("/a +", 5),
        ("NOSUCH(/a)", 1),
        ("x" * (FILTER_CHARS_MAX + 1), FILTER_CHARS_MAX + 1),
    ],
)
def test_what_is_no_expression(text: str, column: int) -> None:
    """A blank text is none, and the errors are those of filters."""
    with pytest.raises(FilterError) as error:
        compile_expression(text)
    assert error.value.column == column


def test_a_caller_may_have_functions_of_its_own() -> None:
    """Calls that the language doesn't have are taken out of a tree, and their results put in as fields."""
    aggregates: list[Call] = []

    def taken_out(node: Node) -> Node:
        if isinstance(node, Call) and node.name == "SUM":
            aggregates.append(node)
            return Field(Path(("\0agg", len(aggregates) - 1)))
        return rebuilt(node, taken_out)

    tree = taken_out(parse("ROUND(SUM(/qty * /px) / SUM(/qty), 2)"))
    rows = [{"qty": 1, "px": 10}, {"qty": 2, "px": 11.5}]
    sums = []
    for call in aggregates:
        argument = compile_tree(call.arguments[0])
        sums.append(sum(argument(row) for row in rows))  # type: ignore[misc, arg-type]
    assert Expression(tree).value({"\0agg": sums}) == 11.0


def test_a_tree_is_checked() -> None:
    """A tree with a function that doesn't exist can't be compiled."""
    with pytest.raises(FilterError, match=r"expected a known function .*, got SUM"):
        compile_tree(parse("1 + SUM(/a)"))
    with pytest.raises(FilterError, match=r"expected a known function .*, got SUM"):
        Expression(parse("SUM(/a)"))
