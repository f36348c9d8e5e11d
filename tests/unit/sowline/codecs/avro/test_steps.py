"""Converters: they put off what may be of any depth, and errors have the whole path."""

from typing import Any

import pytest

from sowline.codecs.avro import AvroCodec
from sowline.codecs.avro.misfit import SchemaMisfit, excerpt
from sowline.codecs.avro.steps import Cell, Later, ValueConverter, array_of, map_of, run
from sowline.errors import SowlineError
from tests.property.avro_schemas import record, schema_of


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ('{"lines":[{"qty":1},{"qty":"x"}]}', "/lines[1]/qty"),
        ('{"lines":[],"by":{"a/b":{"x":{"qty":1.5}}}}', "/by[/a/b]/x/qty"),
        ('{"lines":[],"by":{},"odd":5}', "/odd"),
    ],
)
def test_a_message_names_the_path(body: str, path: str) -> None:
    """The path leads through arrays, maps, and records that are mentioned by name."""
    line = record(("qty", "int"), name="Line")
    by = {"type": "map", "values": {"type": "map", "values": "Line"}}
    raw = record(
        ("lines", {"type": "array", "items": line}),
        {"name": "by", "type": by, "default": {}},
    )
    with pytest.raises(SowlineError) as caught:
        AvroCodec(schema_of(raw)).write(body.encode())
    assert caught.value.message.startswith(f"{path}: expected ")


def doubled(value: Any, later: Later) -> Any:
    """Convert a number; refuse any other value."""
    if type(value) is not int:
        raise SchemaMisfit("a number", excerpt(value))
    return 2 * value


AT_ONCE = ValueConverter(doubled)
LATE = ValueConverter(doubled, is_late=True)


@pytest.mark.parametrize("item", [AT_ONCE, LATE])
def test_arrays_and_maps_are_converted_by_their_items(item: ValueConverter) -> None:
    """The keys of a map are sorted, and what came stays as it was."""
    given = {"b": [1, 2], "a": []}
    convert = map_of(array_of(item)).convert
    assert convert is not None
    done = run(convert, given)
    assert done == {"a": [], "b": [2, 4]}
    assert list(done) == ["a", "b"]
    assert given == {"b": [1, 2], "a": []}
    of_items = map_of(item).convert
    assert of_items is not None
    assert list(run(of_items, {"b": 1, "a": 2}).items()) == [("a", 4), ("b", 2)]


def test_items_that_stay_need_no_converter() -> None:
    """An array of them stays, too. A map is sorted all the same."""
    assert array_of(ValueConverter(None)).convert is None
    convert = map_of(ValueConverter(None)).convert
    assert convert is not None
    assert list(run(convert, {"b": 1, "a": 2})) == ["a", "b"]


@pytest.mark.parametrize("item", [AT_ONCE, LATE])
@pytest.mark.parametrize(
    ("container_of", "value", "step"), [(array_of, [1, "x"], 1), (map_of, {"a": 1, "b": "x"}, "b")]
)
def test_an_error_has_the_path(item: ValueConverter, container_of: Any, value: Any, step: Any) -> None:
    """Innermost step first, whether the value was put off or not."""
    with pytest.raises(SchemaMisfit, match="a number") as refused:
        run(container_of(item).convert, value)
    assert refused.value.steps == [step]


def test_values_that_are_put_off_have_no_stack() -> None:
    """A cell stands for the converter of a record that is compiled later; without one, the record stays."""
    cell = Cell()
    assert run(cell, {"next": []}) == {"next": []}
    next_records = array_of(ValueConverter(cell, is_late=True)).convert
    assert next_records is not None
    cell.convert = lambda value, later: {"next": next_records(value["next"], later)}
    document: dict[str, Any] = {"next": []}
    for _ in range(5000):
        document = {"next": [document]}
    depth, done = 0, run(cell, document)
    while done["next"]:
        depth, done = depth + 1, done["next"][0]
    assert depth == 5000
