"""Deltas: the key fields and what changed; and one delta for changes that follow each other."""

from itertools import pairwise

import pytest

from sowline.errors import SowlineError
from sowline.model.difference import REMOVED_CHARS_MAX, ChangeDelta, difference, union
from sowline.model.merge import DEPTH_MAX, merge
from sowline.model.nesting import NESTING_MAX
from sowline.model.path import parse_path
from sowline.model.select import parse_select

ID = (("id",),)


def of(previous: str, body: str, select: str | None = None) -> ChangeDelta:
    """The delta between two records whose key is /id."""
    chosen = None if select is None else parse_select(select)
    return difference(previous.encode(), body.encode(), ID, chosen)


def conflated(*states: str, select: str | None = None) -> ChangeDelta:
    """The union of the deltas between records that follow each other."""
    chosen = None if select is None else parse_select(select)
    delta = of(states[0], states[1], select)
    for previous, body in pairwise(states[1:]):
        delta = union(delta, of(previous, body, select), body.encode(), chosen)
    return delta


def test_a_delta_is_the_key_and_the_changed_fields() -> None:
    """An order whose status changes is sent as its number and its status."""
    before = b'{"order":3,"customer":"Patrick","status":"open","qty":1000,"ticker":"MSFT"}'
    now = b'{"order":3,"customer":"Patrick","status":"pending","qty":1000,"ticker":"MSFT"}'
    delta = difference(before, now, (("order",),))
    assert delta == ChangeDelta(b'{"order":3,"status":"pending"}', True, (), False)


def test_an_update_that_changes_nothing_is_the_key_alone() -> None:
    """It says that it is unchanged, so that it can be left out."""
    assert of('{"id":1,"a":2}', '{"id":1,"a":2}') == ChangeDelta(b'{"id":1}', False)


@pytest.mark.parametrize(
    ("previous", "body"),
    [
        ('{"id":1,"a":2}', '{"a":2,"id":1}'),
        ('{"id":1,"a":2}', ' {"id": 1 ,\n"a":2 } '),
        ('{"id":1,"a":[1,{"b":2,"c":3}]}', '{"id":1,"a":[1, {"c":3,"b":2}]}'),
        ('{"id":1,"a":{"b":{"c":1}}}', '{"id":1,"a":{ "b" : { "c" : 1}}}'),
        ('{"id":1,"a":"é/"}', '{"id":1,"a":"\\u00e9\\/"}'),
        ('{"id":1,"a":2}', '{"id":1,"\\u0061":2}'),
        ('{"id":1,"a":5,"a":2}', '{"id":1,"a":2}'),
    ],
)
def test_another_text_of_the_same_record_is_no_change(previous: str, body: str) -> None:
    """Order, whitespace, escapes and fields that a later one of the same name hides make no difference."""
    assert of(previous, body) == of(body, previous) == ChangeDelta(b'{"id":1}', False)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("1", "1.0"),
        ("1.0", "1.00"),
        ("1.5", "15e-1"),
        ("0.0", "-0.0"),
        ("1", '"1"'),
        ("1", "true"),
        ("12345678901234567890123", "12345678901234567890124"),
        ("9007199254740993", "9007199254740992"),
        ("null", "0"),
        ("null", '""'),
        ("null", "{}"),
        ("[]", "{}"),
        ("[]", "[null]"),
        ("{}", "[]"),
        ("{}", "null"),
        ("1" * 5000, "1" * 4999),
        ("[1,2]", "[2,1]"),
        ("[1]", "[1.0]"),
        ("[1]", "[true]"),
        ('[{"a":1}]', '[{"a":1,"b":null}]'),
        ("1", '{"a":1}'),
        ('{"a":1}', "[1]"),
    ],
)
def test_a_changed_value_is_sent_whole_with_its_exact_text(before: str, now: str) -> None:
    """Kinds differ, numbers are exact, and an array is one value."""
    for old, new in ((before, now), (now, before)):
        body = f'{{"id":1,"a":{new}}}'
        assert of(f'{{"id":1,"a":{old}}}', body) == ChangeDelta(body.encode(), True)


def test_arrays_and_new_objects_keep_their_text() -> None:
    """Of a value that is sent, not even the whitespace is touched."""
    delta = of('{"id":1,"a":[1]}', '{"id":1, "a":[ 1, 2.50 ], "b":{ "c" : 1e400 }}')
    assert delta.body == b'{"id":1,"a":[ 1, 2.50 ],"b":{ "c" : 1e400 }}'


def test_objects_are_compared_field_by_field() -> None:
    """Of an object, what changed in it is sent, and nothing beside."""
    delta = of(
        '{"id":1,"a":{"b":1,"c":{"d":1,"e":2}},"f":{"g":1}}',
        '{"id":1,"a":{"b":1,"c":{"d":1,"e":3}},"f":{"g":1}}',
    )
    assert delta == ChangeDelta(b'{"id":1,"a":{"c":{"e":3}}}', True)


def test_null_is_a_value_and_absent_is_none() -> None:
    """A field set to null is sent as null; one that is gone is removed."""
    assert of('{"id":1,"a":2}', '{"id":1,"a":null}') == ChangeDelta(b'{"id":1,"a":null}', True)
    assert of('{"id":1}', '{"id":1,"a":null}') == ChangeDelta(b'{"id":1,"a":null}', True)
    assert of('{"id":1,"a":null}', '{"id":1}') == ChangeDelta(b'{"id":1}', True, ("/a",))


@pytest.mark.parametrize(
    ("previous", "body", "removed"),
    [
        ('{"id":1,"a":2,"b":3}', '{"id":1}', ("/a", "/b")),
        ('{"id":1,"a":{"b":1,"c":2}}', '{"id":1,"a":{"c":2}}', ("/a/b",)),
        ('{"id":1,"a":{"b":1,"c":2}}', '{"id":1,"a":{}}', ("/a/b", "/a/c")),
        ('{"id":1,"a":{"b":1,"c":2}}', '{"id":1}', ("/a",)),
        ('{"id":1,"a b":{"0":1,"[":2}}', '{"id":1,"a b":{}}', ("[/a b]/0", "[/a b][/[]")),
    ],
)
def test_removed_fields_are_named_by_their_paths(previous: str, body: str, removed: tuple[str, ...]) -> None:
    """An object that is gone is one path; one that is emptied, a path for each field."""
    assert of(previous, body) == ChangeDelta(b'{"id":1}', True, removed)
    assert all(str(parse_path(path)) == path for path in removed)


@pytest.mark.parametrize(
    ("previous", "body"),
    [
        ('{"id":1,"a/b":2}', '{"id":1}'),
        ('{"id":1,"a]":2}', '{"id":1}'),
        ('{"id":1,"":2}', '{"id":1}'),
        ('{"id":1,"o":{"a/b":2,"c":1}}', '{"id":1,"o":{"c":1}}'),
        ('{"id":1,"a/b":{"c":1}}', '{"id":1,"a/b":{}}'),
    ],
)
def test_where_no_path_can_name_what_was_removed_the_record_is_sent_whole(previous: str, body: str) -> None:
    """Paths hold no empty names, and none with `/` or `]`."""
    assert of(previous, body) == ChangeDelta(body.encode(), True, (), True)


def test_fields_that_no_path_can_name_change_like_others() -> None:
    """Only their removal needs a path."""
    assert of('{"id":1,"a/b":{"":2}}', '{"id":1,"a/b":{"":3}}') == ChangeDelta(b'{"id":1,"a/b":{"":3}}', True)


def test_removed_paths_have_a_limit() -> None:
    """Beyond it, the record is sent whole: paths of deep fields would be far longer than the record."""
    name = "n" * (REMOVED_CHARS_MAX // 2 - 1)
    previous = f'{{"id":1,"a{name[1:]}":1,"b{name[1:]}":1,"c":1}}'
    within = of(previous, '{"id":1,"c":1}')
    assert (len(within.removed), within.whole) == (2, False)
    assert of(previous, '{"id":1}') == ChangeDelta(b'{"id":1}', True, (), True)
    first = of(previous, f'{{"id":1,"a{name[1:]}":1,"c":1}}')
    middle = of(f'{{"id":1,"a{name[1:]}":1,"c":1}}', '{"id":1}')
    assert union(first, middle, b'{"id":1}').whole


def test_all_key_fields_are_sent_wherever_they_are() -> None:
    """Of an object that holds a key field, only the key field is, unless more changed."""
    keys = (("client", "id"), ("day",))
    before = b'{"client":{"id":7,"name":"x"},"day":1,"a":1}'
    assert difference(before, before, keys) == ChangeDelta(b'{"client":{"id":7},"day":1}', False)
    now = b'{"client":{"id":7,"name":"y"},"day":1,"a":1}'
    assert difference(before, now, keys) == ChangeDelta(b'{"client":{"id":7,"name":"y"},"day":1}', True)


def test_a_key_field_with_another_value_is_a_change() -> None:
    """1 and "1" are one key but two values; a key field of a document may also appear."""
    assert of('{"id":1}', '{"id":"1"}') == ChangeDelta(b'{"id":"1"}', True)
    assert of('{"a":1}', '{"a":1,"id":1}') == ChangeDelta(b'{"id":1}', True)


def test_without_key_fields_only_changes_are_sent() -> None:
    """Keys that publishers supply are in no body."""
    assert difference(b'{"a":1,"b":2}', b'{"a":1,"b":3}', ()) == ChangeDelta(b'{"b":3}', True)
    assert difference(b'{"a":1}', b'{"a":1}', ID) == ChangeDelta(b"{}", False)


def test_what_a_select_list_leaves_out_is_neither_compared_nor_sent() -> None:
    """Changes of other fields leave a delta unchanged; key fields are left out like others."""
    previous, body = '{"id":1,"a":1,"b":1,"c":1}', '{"id":1,"a":2,"b":2}'
    assert of(previous, body, "[-/,+/id,+/a]") == ChangeDelta(b'{"id":1,"a":2}', True)
    assert of(previous, body, "[-/id]") == ChangeDelta(b'{"a":2,"b":2}', True, ("/c",))
    assert of(previous, body, "[-/,+/id,+/d]") == ChangeDelta(b'{"id":1}', False)
    assert of('{"id":1,"o":[{"a":1,"b":1}]}', '{"id":1,"o":[{"a":1,"b":2}]}', "[-/o/b]") == ChangeDelta(
        b'{"id":1}', False
    )


def test_what_is_sent_whole_is_selected_too() -> None:
    """A record that can't be told as a delta is sent without what the select list leaves out."""
    assert of('{"id":1,"a/b":1,"c":1}', '{"id":1,"c":1}', "[-/c]") == ChangeDelta(b'{"id":1}', True, (), True)
    delta = conflated(
        '{"id":1,"o":{"a":1},"c":1}', '{"id":1,"c":1}', '{"id":1,"o":{"b":1},"c":1}', select="[-/c]"
    )
    assert delta == ChangeDelta(b'{"id":1,"o":{"b":1}}', True, (), True)


def test_a_union_holds_what_any_of_the_deltas_held_as_it_is_at_the_end() -> None:
    """Fields that changed and came back are sent; one that never changed is not."""
    delta = conflated(
        '{"id":99,"status":"open","notes":"none","xref":82}',
        '{"id": 99, "status":"questioned", "notes":"none", "xref":82}',
        '{"id": 99, "status":"questioned", "notes":"jcarlo hold", "xref":82}',
        '{"id": 99, "status":"cleared", "notes":"none", "xref":82}',
        '{"id": 99, "status":"open", "notes":"none", "xref":82}',
    )
    assert delta == ChangeDelta(b'{"id":99,"status":"open","notes":"none"}', True)


def test_a_union_of_updates_that_change_nothing_is_the_key_alone() -> None:
    """It is unchanged, too; one change among them is enough to be changed."""
    same = '{"id":1,"a":2}'
    assert conflated(same, same, same) == ChangeDelta(b'{"id":1}', False)
    for states in ((same, same, '{"id":1,"a":3}'), (same, '{"id":1,"a":3}', '{"id":1,"a":3}')):
        assert conflated(*states) == ChangeDelta(b'{"id":1,"a":3}', True)


def test_whitespace_around_a_body_is_not_sent() -> None:
    """Neither of a delta nor of a union."""
    assert conflated('{"id":1}', ' {"id":1,"a":1} ', ' {"id":1,"a":2} ') == ChangeDelta(
        b'{"id":1,"a":2}', True
    )


def test_a_union_names_nested_fields_only() -> None:
    """Of an object, those fields are sent that a delta held."""
    delta = conflated(
        '{"id":1,"o":{"a":1,"b":1,"c":1}}',
        '{"id":1,"o":{"a":2,"b":1,"c":1}}',
        '{"id":1,"o":{"a":2,"b":2,"c":1}}',
    )
    assert delta == ChangeDelta(b'{"id":1,"o":{"a":2,"b":2}}', True)


@pytest.mark.parametrize(
    ("states", "body", "removed"),
    [
        (('{"id":1,"a":2}', '{"id":1}', '{"id":1,"b":1}'), '{"id":1,"b":1}', ("/a",)),
        (('{"id":1,"a":2}', '{"id":1}', '{"id":1,"a":2}'), '{"id":1,"a":2}', ()),
        (('{"id":1,"a":2}', '{"id":1,"a":3}', '{"id":1}'), '{"id":1}', ("/a",)),
        (('{"id":1}', '{"id":1,"a":3}', '{"id":1}'), '{"id":1}', ("/a",)),
        (('{"id":1,"a":2,"b":2}', '{"id":1,"b":2}', '{"id":1}'), '{"id":1}', ("/a", "/b")),
        (('{"id":1,"o":{"a":1}}', '{"id":1,"o":{}}', '{"id":1}'), '{"id":1}', ("/o",)),
        (('{"id":1,"o":{"a":1}}', '{"id":1,"o":{}}', '{"id":1,"o":5}'), '{"id":1,"o":5}', ()),
        (('{"id":1,"o":{"a":1}}', '{"id":1,"o":{}}', '{"id":1,"o":{"a":5}}'), '{"id":1,"o":{"a":5}}', ()),
        (('{"id":1,"o":5}', '{"id":1,"o":{"a":1}}', '{"id":1,"o":{}}'), '{"id":1,"o":{}}', ("/o/a",)),
    ],
)
def test_a_union_removes_what_was_removed_and_is_not_back(
    states: tuple[str, ...], body: str, removed: tuple[str, ...]
) -> None:
    """Where what held the field is gone or replaced, that says it all."""
    assert conflated(*states) == ChangeDelta(body.encode(), True, removed)


@pytest.mark.parametrize("between", ['{"id":1,"o":5,"x":1}', '{"id":1,"x":1}'])
def test_an_object_that_was_something_else_in_between_makes_a_union_whole(between: str) -> None:
    """What fields the object had before, no delta tells; merging alone would keep those that are gone."""
    last = '{"id":1,"o":{"b":2},"x":1}'
    assert conflated('{"id":1,"o":{"a":1,"b":2},"x":1}', between, last) == ChangeDelta(
        last.encode(), True, (), True
    )


def test_a_union_with_a_whole_record_is_whole() -> None:
    """A new record that changes before it is sent is still new."""
    new, body = ChangeDelta(b'{"id":1,"a":1,"b":1}', True, whole=True), b'{"id":1,"a":2,"b":1}'
    delta = difference(new.body, body, ID)
    assert (
        union(new, delta, body)
        == union(delta, ChangeDelta(body, True, whole=True), body)
        == ChangeDelta(body, True, (), True)
    )


def nested(levels: int, innermost: str) -> bytes:
    """A record of that many objects in each other; the last holds the field given."""
    return ('{"a":' * (levels - 1) + f"{{{innermost}}}" + "}" * (levels - 1)).encode()


def test_a_change_as_deep_as_merging_goes_is_sent_and_a_deeper_one_makes_it_whole() -> None:
    """What is sent as a delta, `merge` can merge."""
    before, now = nested(DEPTH_MAX, '"b":1,"c":1'), nested(DEPTH_MAX, '"b":2,"c":1')
    delta = difference(before, now, ())
    assert (delta.body, delta.whole) == (nested(DEPTH_MAX, '"b":2'), False)
    assert merge(before, delta.body) == now
    before, now = nested(DEPTH_MAX + 1, '"b":1,"c":1'), nested(DEPTH_MAX + 1, '"b":2,"c":1')
    assert difference(before, now, ()) == ChangeDelta(now, True, (), True)
    with pytest.raises(SowlineError):
        merge(before, nested(DEPTH_MAX + 1, '"b":2'))


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (nested(NESTING_MAX, '"b":1'), nested(NESTING_MAX, '"b": 1')),
        (nested(NESTING_MAX, '"b":1'), nested(NESTING_MAX, '"b":2')),
        (nested(NESTING_MAX, '"b":1'), nested(NESTING_MAX, "")),
        (b"{}", nested(NESTING_MAX, "")),
        (b'{"a":' + b"[" * 499 + b"]" * 499 + b"}", b'{"a":' + b"[" * 499 + b" " + b"]" * 499 + b"}"),
        (b'{"a":' + b"[" * 499 + b"]" * 499 + b"}", b'{"a":' + b"[" * 498 + b"1" + b"]" * 498 + b"}"),
    ],
)
def test_records_nest_as_deep_as_they_may(before: bytes, now: bytes) -> None:
    """Nothing runs out of stack, whichever way the change is."""
    there, back = difference(before, now, ID), difference(now, before, ID)
    assert there.changed == back.changed == (before.replace(b" ", b"") != now.replace(b" ", b""))
    assert difference(before, now, ID, parse_select("[-/b]")).changed == there.changed
    assert union(there, back, before).changed == there.changed


def test_a_union_goes_through_records_as_deep_as_they_may_be() -> None:
    """A deep object that is new is found in the record again, though it is written otherwise there."""
    new, now = nested(NESTING_MAX, '"b":1'), nested(NESTING_MAX, '"b": 1')
    assert union(difference(b"{}", new, ID), difference(new, now, ID), now) == ChangeDelta(new, True)
