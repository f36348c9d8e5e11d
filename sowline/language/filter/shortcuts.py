"""Shortcuts: fast tests for conditions that compare one field with constants.

Each test decides the plain case itself, for example if the field and the constant are both strings. It calls the
judge in all other cases: arrays, conversions, NULL. `tests/unit/sowline/language/filter/test_properties.py` checks
that both give the same answers.
"""

from collections.abc import Callable
from typing import Any

from sowline.language.filter.arrays import RELATIONS
from sowline.language.filter.evaluate import Relation
from sowline.language.filter.patterns import TextTest, compile_pattern
from sowline.language.filter.predicates import MIRRORED, Affixes, Judge, Membership, constant
from sowline.language.filter.tree import Between, Comparison, Field, Like, Literal, Node
from sowline.model.path import Document, Path, Scalar, value_of

Test = Callable[[Document], bool]


def shortcut(node: Node, operand: Node, judge: Judge) -> Test | None:
    """Return a test whether the predicate is TRUE for a document; None if its operand is not a path of names."""
    if not isinstance(operand, Field):
        return None
    names = [step for step in operand.path.steps if isinstance(step, str)]
    if len(names) < len(operand.path.steps):
        return None
    test = _of_member(node, names[-1], judge)
    return test if len(names) == 1 else _descending(names[:-1], test, operand.path, judge)


def _of_member(node: Node, name: str, judge: Judge) -> Test:
    """Return the test for a top-level field with this name."""
    match node:
        case Comparison(operator, Field(), Literal() as literal):
            return _comparison(name, operator, constant(literal), judge)
        case Comparison(operator, Literal() as literal, Field()):
            return _comparison(name, MIRRORED[operator], constant(literal), judge)
        case Like(_, pattern, raw):
            return _text_test(name, compile_pattern(pattern, raw=raw), judge)
        case Between(_, Literal(int() | float() as low), Literal(int() | float() as high)):
            return _between_numbers(name, low, high, judge)
        case _ if isinstance(judge, Affixes):
            return _text_test(name, judge.test, judge)
        case _:
            return _membership(name, judge) if isinstance(judge, Membership) else _judged(name, judge)


def _descending(parents: list[str], test: Test, path: Path, judge: Judge) -> Test:
    """Return the test for a field further down; if the path passes through a non-object, the judge decides."""
    holds_of_null = judge(None) is True

    def descend(document: Document) -> bool:
        node: Any = document
        for name in parents:
            node = node.get(name)
            # Through an array, a path gives the fields of all elements. The test below sees one object only
            # (test_a_path_through_an_array_gives_all_its_elements).
            if node.__class__ is not dict:
                return holds_of_null if node is None else judge(path.read(document)) is True
        return test(node)

    return descend


def _comparison(name: str, operator: str, literal: Scalar, judge: Judge) -> Test:
    if isinstance(literal, str):
        return _compare_text(name, RELATIONS[operator], literal, judge)
    if isinstance(literal, int | float):
        return _compare_number(name, RELATIONS[operator], literal, judge)
    return _judged(name, judge)


def _judged(name: str, judge: Judge) -> Test:
    def test(document: Document) -> bool:
        return judge(value_of(document.get(name))) is True

    return test


def _compare_text(name: str, relation: Relation, literal: str, judge: Judge) -> Test:
    def test(document: Document) -> bool:
        value = document.get(name)
        if value.__class__ is str:
            # An empty text is NULL.
            return relation(value, literal) and value != ""
        # A missing field is NULL, and no comparison with NULL is TRUE: it needs no judge.
        return value is not None and judge(value_of(value)) is True

    return test


def _compare_number(name: str, relation: Relation, literal: float, judge: Judge) -> Test:
    def test(document: Document) -> bool:
        value = document.get(name)
        kind = value.__class__
        if kind is int or kind is float or kind is bool:
            return relation(value, literal)
        return value is not None and judge(value_of(value)) is True

    return test


def _between_numbers(name: str, low: float, high: float, judge: Judge) -> Test:
    def test(document: Document) -> bool:
        value: Any = document.get(name)
        kind = value.__class__
        if kind is int or kind is float:
            is_between: bool = low <= value <= high
            return is_between
        return value is not None and judge(value_of(value)) is True

    return test


def _text_test(name: str, matches: TextTest, judge: Judge) -> Test:
    def test(document: Document) -> bool:
        value: Any = document.get(name)
        if value.__class__ is str:
            return value != "" and matches(value) is True
        return value is not None and judge(value_of(value)) is True

    return test


def _membership(name: str, judge: Membership) -> Test:
    texts, numbers, texts_only = judge.texts, judge.numbers, judge.compares_texts_only

    def test(document: Document) -> bool:
        value = document.get(name)
        kind = value.__class__
        # With a number in the list, a text may equal it: '2.0' is in (2). The judge decides
        # (test_shortcuts_agree_with_the_reference).
        if kind is str and texts_only:
            return value in texts
        if kind is int or kind is float:
            return value in numbers
        return value is not None and judge(value_of(value)) is True

    return test
