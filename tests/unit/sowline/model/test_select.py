"""Select lists: which fields of a body are sent, and that these keep their text."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.errors import SowlineError
from sowline.model.nesting import NESTING_MAX
from sowline.model.path import Path, parse_path
from sowline.model.select import DIRECTIVES_MAX, SELECT_CHARS_MAX, Select, parse_select

BODY = b'{"id":1,"a":{"b":2,"c":[3]},"d":"x"}'


@pytest.mark.parametrize(
    ("select", "sent"),
    [
        ("[+/]", BODY),
        ("[-/]", b"{}"),
        ("[-/,+/id]", b'{"id":1}'),
        ("[+/id,-/]", b'{"id":1}'),
        ("[-/,+/id,+/a/b]", b'{"id":1,"a":{"b":2}}'),
        ("[-/a]", b'{"id":1,"d":"x"}'),
        ("[-/a/b]", b'{"id":1,"a":{"c":[3]},"d":"x"}'),
        ("[-/a,+/a/c]", b'{"id":1,"a":{"c":[3]},"d":"x"}'),
        ("[-/,+/a,-/a/b]", b'{"a":{"c":[3]}}'),
        ("[+/id]", BODY),
        ("[-/,+/nothing,+/id/x,+/a/b/y]", b"{}"),
        ("[-/a/b,-/a/c]", b'{"id":1,"d":"x"}'),
        ("[-/,+/d,-/d]", b'{"d":"x"}'),
        ("[-/,-/d,+/d]", b"{}"),
        ("[-/,+/,+/d]", b'{"d":"x"}'),
        (" [ -/ , +/d ] ", b'{"d":"x"}'),
    ],
)
def test_the_most_specific_directive_decides(select: str, sent: bytes) -> None:
    """What none covers is sent; of two on one field the first counts; nothing is made up."""
    assert parse_select(select).apply(BODY) == sent


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        ('{"a":[{"b":1,"c":2},{"b":3}]}', '{"a":[{"b":1},{"b":3}]}'),
        ('{"a":[{"b":1},5,null,[{"c":2},{"b":3,"d":4}],{"c":2}]}', '{"a":[{"b":1},[{"b":3}]]}'),
        ('{"a":[5,[]]}', "{}"),
        ('{"a":{"b":{}}}', '{"a":{"b":{}}}'),
        ('{"a":{"b":[]}}', '{"a":{"b":[]}}'),
        ('{"a":{}}', "{}"),
        ('{"a":{"b":null}}', '{"a":{"b":null}}'),
        ('{"a":{"c":1}}', "{}"),
        ('{"a":5}', "{}"),
        ("{}", "{}"),
    ],
)
def test_arrays_are_looked_through(body: str, sent: str) -> None:
    """Objects and arrays that lose all they hold go with it; what was empty before is a value."""
    assert parse_select("[-/,+/a/b]").apply(body.encode()) == sent.encode()


def test_what_was_empty_before_is_a_value() -> None:
    """An empty object or array is not sent where its field is not, and sent where it is."""
    body = b'{"a":{},"b":[{},[]],"c":[{"x":1}]}'
    assert parse_select("[-/a/x,-/b/x,-/c/x]").apply(body) == b'{"a":{},"b":[{},[]]}'
    assert parse_select("[-/a,+/a/x,-/b,+/b/x]").apply(body) == b'{"c":[{"x":1}]}'


@pytest.mark.parametrize(
    "text", ["1.50", "1e400", "-0.0", "123456789012345678901234567890", '"\\u00e9"', '{ "x" : [1.0 , 2] }']
)
def test_what_is_sent_keeps_its_text(text: str) -> None:
    """Numbers of any size and precision, escapes and blanks stay as they were written."""
    body = f' {{ "x":{{"keep": {text} , "y":1}},"list":[{{"keep":{text},"y":2}}],"y":3 }} '
    sent = f'{{"x":{{"keep":{text}}},"list":[{{"keep":{text}}}]}}'
    assert parse_select("[-/,+/x/keep,+/list/keep]").apply(body.encode()).decode() == sent
    assert parse_select("[+/,-/nothing]").apply(b'{"a":%s}' % text.encode()).decode() == f'{{"a":{text}}}'


@pytest.mark.parametrize("select", ["[-/,+/a]", "[-/b]"])
def test_of_a_field_named_twice_the_last_counts(select: str) -> None:
    """As where the body is parsed."""
    assert parse_select(select).apply(b'{"a":1,"b":0,"a":{"x":2.0},"b":1}') == b'{"a":{"x":2.0}}'


@pytest.mark.parametrize(
    "name", ["a", "é", "\U0001f600", "a b", 'a"b', "\\", "class", "self", "__name__", ""]
)
def test_names_are_any_text(name: str) -> None:
    """Names of other alphabets, names that are no identifiers, and names of Python's own, however written."""
    select = Select({(): False, (name,): True, ("é",): True, ("x", name): True})
    alone = Select({(): False, (name,): True})
    for escaped in (True, False):
        body = json.dumps({name: 1, "é": 2, "x": {name: 3, "y": 4}, "y": 5}, ensure_ascii=escaped).encode()
        assert json.loads(select.apply(body)) == {name: 1, "é": 2, "x": {name: 3}}
        assert json.loads(alone.apply(body)) == {name: 2 if name == "é" else 1}
    assert alone.apply(b'{"\\u0061":1}') == (b'{"a":1}' if name == "a" else b"{}")


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":' * NESTING_MAX + b"1" + b"}" * NESTING_MAX,
        b'{"a":' + b"[" * (NESTING_MAX - 1) + b"]" * (NESTING_MAX - 1) + b"}",
        b'{"a":' + b'[{"a":' * 249 + b"1" + b"}]" * 249 + b"}",
        b'{"b":1,"a":' + b"[" * (NESTING_MAX - 2) + b'{"c":2}' + b"]" * (NESTING_MAX - 2) + b"}",
    ],
)
def test_a_body_may_be_as_deep_as_bodies_are(body: bytes) -> None:
    """No nesting that a body may have is too deep to select from."""
    orjson.loads(body)
    deep = "/a" * NESTING_MAX
    for text in (f"[-/,+{deep}]", f"[-{deep}]", "[-/,+/a/a]", "[-/a/c]", "[-/,+/a/c]"):
        orjson.loads(parse_select(text).apply(body))


@pytest.mark.parametrize(
    ("path", "kept"),
    [("/id", True), ("/a", False), ("/a/b", True), ("/a[3]/b/x[0]", True), ("/a/c", False), ("/z", False)],
)
def test_a_select_list_tells_which_paths_it_keeps(path: str, kept: bool) -> None:
    """A path is kept if a value that stands there is sent."""
    assert parse_select("[-/,+/id,+/a/b]").keeps(parse_path(path)) is kept


def test_equal_lists_are_equal() -> None:
    """The order of directives does not matter, nor what comes too late to count."""
    one, other = parse_select("[-/, +/b/c,+[/a b],,-/b/c]"), parse_select("[+[/a b],-/,+[/b/c]]")
    assert one == other
    assert hash(one) == hash(other)
    assert one.text == "[-/,+[/a b],+/b/c]"
    assert parse_select(one.text) == one
    assert one != parse_select("[-/]")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a select list like"),
        ("[]", "a select list like"),
        ("[ , ]", "a select list like"),
        ("-/", "a select list like"),
        ("[-/", "a select list like"),
        ("[/a]", r"expected \+ or - .* got '/a'"),
        ("[+]", "got ''"),
        ("[+a]", "got 'a'"),
        ("[+/a/]", "column 3"),
        ("[+/a[0]]", "without a subscript, got '/a\\[0\\]'"),
        ("[+[/a]", "select list"),
        (f"[{','.join(f'+/a{n}' for n in range(DIRECTIVES_MAX + 1))}]", "at most 256 fields, got 257"),
        (f"[+/{'a' * SELECT_CHARS_MAX}]", "at most 65536 characters"),
    ],
)
def test_what_is_no_select_list_is_refused(text: str, message: str) -> None:
    """The error says what was expected and what came."""
    with pytest.raises(SowlineError, match=message) as error:
        parse_select(text)
    assert error.value.reason == "invalid options"


# --- The reference: every leaf is looked at by itself, on parsed bodies. ---

GONE = object()

names = st.sampled_from("abé")
paths = st.lists(names, max_size=3).map(tuple)
selects = st.dictionaries(paths, st.booleans(), min_size=1, max_size=5)
values = st.recursive(
    st.none() | st.integers(0, 3) | st.just("x"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)
bodies = st.dictionaries(names, values, max_size=3)


def reference_sent(directives: dict[tuple[str, ...], bool], path: tuple[str, ...]) -> bool:
    """Whether a leaf is sent: the longest directive that its path begins with says so."""
    covering = [given for given in directives if path[: len(given)] == given]
    return directives[max(covering, key=len)] if covering else True


def reference(node: Any, directives: dict[tuple[str, ...], bool], path: tuple[str, ...] = ()) -> Any:
    """What is sent of a node, or GONE."""
    if isinstance(node, dict) and node:
        fields = {name: reference(inner, directives, (*path, name)) for name, inner in node.items()}
        return {name: inner for name, inner in fields.items() if inner is not GONE} or GONE
    if isinstance(node, list) and node:
        elements = [reference(inner, directives, path) for inner in node]
        return [inner for inner in elements if inner is not GONE] or GONE
    return node if reference_sent(directives, path) else GONE


@given(selects, bodies)
@example({(): False, ("a", "b"): True}, {"a": [{"b": [{}, [], {"é": 1}]}, 1]})
@example({(): False, ("é",): True}, {"é": 1})
def test_a_selection_is_what_leaf_by_leaf_remains(directives: dict[tuple[str, ...], bool], body: Any) -> None:
    """Whatever the body and the list, what is sent parses to what the reference keeps."""
    kept = reference(body, directives)
    sent = Select(directives).apply(json.dumps(body).encode())
    assert json.loads(sent) == ({} if kept is GONE else kept)


@given(selects, paths.filter(bool))
def test_kept_paths_are_those_whose_values_are_sent(
    directives: dict[tuple[str, ...], bool], path: tuple[str, ...]
) -> None:
    """`keeps` and `apply` agree."""
    body: Any = 1
    for name in reversed(path):
        body = {name: body}
    select = Select(directives)
    assert select.keeps(parse_path("/" + "/".join(path))) is (
        select.apply(json.dumps(body).encode()) != b"{}"
    )


@given(selects, selects, bodies)
def test_what_either_sends(
    first: dict[tuple[str, ...], bool], second: dict[tuple[str, ...], bool], body: Any
) -> None:
    """What is selected of it by one of the lists is what that one selects of the whole body, and none sends more."""
    one, other, text = Select(first), Select(second), json.dumps(body).encode()
    either = one | other
    assert json.loads(one.apply(either.apply(text))) == json.loads(one.apply(text))
    assert json.loads(other.apply(either.apply(text))) == json.loads(other.apply(text))
    for names in [*first, *second]:
        path = Path(names)
        assert either.keeps(path) is (one.keeps(path) or other.keeps(path))


@given(selects, selects, bodies)
def test_what_both_send(
    first: dict[tuple[str, ...], bool], second: dict[tuple[str, ...], bool], body: Any
) -> None:
    """What is selected is what one list selects of what the other one does."""
    one, other, text = Select(first), Select(second), json.dumps(body).encode()
    assert json.loads((one & other).apply(text)) == json.loads(other.apply(one.apply(text)))
