"""The specification, docs/filters.md, is true: each line of its tables is run."""

import json
import re

import pytest

from sowline.language.filter import FilterError, Metadata, compile_expression, compile_filter
from sowline.language.filter.functions import FUNCTIONS
from tests.docs.pages import rows_of, text_of

PAGE = "docs/filters.md"


EXAMPLES = rows_of(PAGE, "filter", "document", "result")
VALUES = rows_of(PAGE, "expression", "document", "value")
FACTS = rows_of(PAGE, "expression", "metadata", "value")
SIGNATURES = rows_of(PAGE, "function", "value", "notes")
DETERMINISM = rows_of(PAGE, "filter", "not deterministic")
ERRORS = rows_of(PAGE, "filter", "error")


@pytest.mark.parametrize(("text", "document", "result"), EXAMPLES)
def test_example(text: str, document: str, result: str) -> None:
    """A filter shown with a document is of it what the table says."""
    body = json.loads(document)
    is_true = compile_filter(text).matches(body)
    is_false = compile_filter(f"NOT ({text})").matches(body)
    assert (is_true, is_false) == (result == "TRUE", result == "FALSE")


@pytest.mark.parametrize(("text", "document", "value"), VALUES)
def test_value(text: str, document: str, value: str) -> None:
    """An expression shown with a document has of it the value, of the kind, that the table says."""
    found = compile_expression(text).value(json.loads(document))
    assert repr(found) == repr(json.loads(value))


@pytest.mark.parametrize(("text", "about", "value"), FACTS)
def test_fact(text: str, about: str, value: str) -> None:
    """An expression shown with what is known about a record has the value that the table says."""
    found = compile_expression(text).value_about({}, Metadata(**json.loads(about)))
    assert repr(found) == repr(json.loads(value))


def test_each_function_is_specified_once() -> None:
    """The tables of functions list each function, each once."""
    assert sorted(signature.partition("(")[0] for signature, _, _ in SIGNATURES) == sorted(FUNCTIONS)


@pytest.mark.parametrize("signature", [row[0] for row in SIGNATURES])
def test_signature(signature: str) -> None:
    """A function takes as many arguments as its line says: those in brackets are optional, … is any number."""
    function = FUNCTIONS[signature.partition("(")[0]]
    required = re.sub(r"\[.*\]|, …", "", signature)
    assert function.least == len(re.findall(r"\w+(?=[ ,)])", required))
    most = None if "…" in signature else len(re.findall(r"\w+(?=[ ,)\]])", signature))
    assert function.most == most


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_each_function_has_an_example(name: str) -> None:
    """No function is without a line that is run."""
    assert any(re.search(rf"\b{name}\(", text) for text, _, _ in VALUES + FACTS)


@pytest.mark.parametrize(("text", "names"), DETERMINISM)
def test_determinism(text: str, names: str) -> None:
    """A filter names the functions it uses that the record doesn't determine."""
    assert list(compile_filter(text).nondeterministic) == re.findall(r"\w+", names)


@pytest.mark.parametrize(("text", "message"), ERRORS)
def test_error(text: str, message: str) -> None:
    """A text shown with an error is refused with exactly that sentence."""
    with pytest.raises(FilterError) as error:
        compile_filter(text)
    assert str(error.value) == message


def test_all_tables_are_found() -> None:
    """No table of the specification escapes: each table row is of a known kind, or a heading."""
    lines = text_of(PAGE).splitlines()
    tables = sum(line.startswith("|---") for line in lines)
    found = sum(map(len, (EXAMPLES, VALUES, FACTS, SIGNATURES, DETERMINISM, ERRORS)))
    assert sum(line.startswith("|") for line in lines) == found + 2 * tables
