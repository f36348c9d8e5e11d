"""Every function of the filter language, on arguments of every kind: it never fails, and is what it should be."""

import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.language.filter import Expression, Metadata, compile_expression
from sowline.language.filter.check import REGEXES_SIZE_MAX, regex_size
from sowline.language.filter.functions import FUNCTIONS
from sowline.language.filter.functions.registry import TEXT_CHARS_MAX
from sowline.language.filter.tree import Call, Field, Literal, Node, walk
from sowline.model.path import Path
from tests.examples import examples
from tests.property.filter_reference import reference_values
from tests.property.function_reference import distance
from tests.unit.sowline.language.filter.test_properties import calls, documents, leaf_nodes, nodes

EDGES: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    2**64 - 1,
    -(2**63),
    10**30,
    10**400,
    -(10**400),
    0.0,
    -0.0,
    0.5,
    5e-324,
    1.7e308,
    -1.7e308,
    253402300800.0,
    -62135596801.0,
    math.inf,
    -math.inf,
    math.nan,
    "a",
    "(",
    "",
    "%",
    "%Y%E",
    "%s",
    "%C",
    r"\C",
    "a*",
    "",
    "\ud800",
    "ß\udfffİ",
    "日本語",
    "+23:59",
    "1e400",
    "9" * 400,
    "x" * 5000,
    "\0",
]
scalars = (
    st.sampled_from(EDGES) | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=8)
)
values = scalars | st.lists(scalars, max_size=4)


def arity(name: str) -> st.SearchStrategy[int]:
    """A number of arguments that the function takes."""
    function = FUNCTIONS[name]
    return st.integers(function.least, 4 if function.most is None else function.most)


def is_result(value: Any) -> bool:
    """Whether it is a value that a function may give."""
    if isinstance(value, str):
        return 0 < len(value) <= TEXT_CHARS_MAX
    if isinstance(value, int):
        return -(2**63) <= value < 2**64
    return value is None or isinstance(value, float)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@examples(60)
@given(st.data())
def test_no_function_fails(name: str, data: st.DataObject) -> None:
    """Whatever the arguments, there is a value, and a constant call gives the same as one of fields."""
    arguments = data.draw(arity(name).flatmap(lambda count: st.lists(values, min_size=count, max_size=count)))
    fields: tuple[Node, ...] = tuple(Field(Path((str(index),))) for index in range(len(arguments)))
    document = {str(index): argument for index, argument in enumerate(arguments)}
    expression = Expression(Call(name, fields))
    found = expression.value_about(document, Metadata())
    assert is_result(found)
    constants = [Literal(argument) for argument in arguments if not isinstance(argument, list)]
    is_refusable = name.startswith("REGEXP_")
    if len(constants) == len(arguments) and not is_refusable and not expression.nondeterministic:
        assert repr(Expression(Call(name, tuple(constants))).value({})) == repr(found)


@examples(600)
@given(calls(leaf_nodes), documents)
def test_functions_agree_with_the_reference(node: Node, document: dict[str, Any]) -> None:
    """A function's value is what the reference says, of the same kind."""
    assert repr(Expression(node).value(document)) == repr(reference_values(node, document)[0])


def has_few_regexes(tree: Node) -> bool:
    """Return whether a filter may hold as many regular expressions as the tree does."""
    return sum(map(regex_size, walk(tree))) <= REGEXES_SIZE_MAX


@examples(200)
@given(nodes.filter(has_few_regexes), documents)
def test_an_expression_has_the_reference_s_value(node: Node, document: dict[str, Any]) -> None:
    """The value of any expression is what the reference says; an array of one is that one."""
    found = Expression(node).value(document)
    expected = reference_values(node, document)
    assert repr(found if isinstance(found, list) else [found]) == repr(expected)


@examples(200)
@given(nodes.filter(has_few_regexes), documents)
def test_knowing_more_changes_nothing_else(node: Node, document: dict[str, Any]) -> None:
    """In an envelope, with facts that stand beside the fields, every path finds what it found before."""
    both = Call("COALESCE", (Call("TOPIC_NAME", ()), node))
    expected = Expression(Call("COALESCE", (node,))).value(document)
    assert repr(Expression(both).value_about(document, Metadata(size=7))) == repr(expected)
    assert Expression(both).value_about(document, Metadata(topic="orders")) == "orders"


@given(st.lists(st.sampled_from([None, 1, 2.5, True, "a", "b"]), max_size=4), st.sampled_from(["", "; "]))
def test_arrays_become_texts(elements: list[Any], delimiter: str) -> None:
    """ARRAY_TO_STRING joins what JSON writes for the elements, with a word for NULLs or without them."""
    document = {"a": elements, "d": delimiter}
    texts = [str(one).lower() if one is not None else "none" for one in elements]
    named = compile_expression("ARRAY_TO_STRING(/a, /d, 'none')").value(document)
    assert named == (delimiter.join(texts) or None)
    bare = compile_expression("ARRAY_TO_STRING(/a, /d)").value(document)
    assert bare == (delimiter.join(text for text in texts if text != "none") or None)


degrees = st.floats(-360, 360)


@given(st.tuples(degrees, degrees, degrees, degrees))
@example((0.0, 0.0, 0.0, 180.0))
def test_distances(points: tuple[float, ...]) -> None:
    """A distance is the great circle's, to a few meters even at the antipodes."""
    document = dict(zip("abcd", points, strict=True))
    found = compile_expression("GEO_DISTANCE(/a, /b, /c, /d)").value(document)
    assert found == pytest.approx(distance(*points), rel=1e-6, abs=2)


FORMATS = [
    "%Y-%m-%d %H:%M:%S.%f",
    "%d/%b/%Y:%H:%M:%S,%f",
    "%j %Y %I:%M:%S %p %f",
    "%A, %d %B %Y, %Hh%Mm%S.%f",
    "%a%y%m%d%H%M%S%f",
    "%c .%f",
    "%D %R %S.%f",
]


@examples(300)
@given(st.datetimes(datetime(1970, 1, 1), datetime(2068, 12, 31)), st.sampled_from(FORMATS))
def test_dates_read_back(moment: datetime, form: str) -> None:
    """What STRFTIME writes STRPTIME reads, to the microsecond."""
    timestamp = moment.replace(tzinfo=UTC).timestamp()
    document = {"at": timestamp, "form": form}
    written = compile_expression("STRFTIME(/form, /at)").value(document)
    assert compile_expression("STRPTIME(/text, /form)").value({"text": written, "form": form}) == timestamp


@given(st.text("0123456789-: ", max_size=20), st.sampled_from(["%Y-%m-%d", "%Y-%m-%d %H:%M:%S"]))
@example("2008-02-29", "%Y-%m-%d")
@example("1999-02-29", "%Y-%m-%d")
def test_whatever_the_library_reads_is_read(text: str, form: str) -> None:
    """What Python's own parser reads has the same timestamp; it refuses some blanks and short years."""
    found = compile_expression("STRPTIME(/text, /form)").value({"text": text, "form": form})
    try:
        expected = datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return
    assert found == expected
