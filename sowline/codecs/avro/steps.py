"""Runs converters, which are trees of closures, over values of any nesting depth."""

from collections.abc import Callable
from typing import Any

from sowline.codecs.avro.misfit import SchemaMisfit
from sowline.model.path import Step

Later = list[tuple[Any, Any, "Convert", Any]]
"""Values still to convert: the container that receives the value, its key there, the function, and the value."""

Convert = Callable[[Any, Later], Any]
"""A converter. It may put a part of its value into `Later` instead of converting it."""


class ValueConverter:
    """The converter of a part of a value. None as `convert` means that the value stays as it is.

    A part that `is_late` can hold a record of any depth: its container puts it into `Later`. So the depth of Python's
    stack depends on the schema alone, and the same bytes are refused wherever they are read.
    """

    __slots__ = ("convert", "is_late")

    def __init__(self, convert: Convert | None, is_late: bool = False) -> None:
        self.convert = convert
        self.is_late = is_late


class Cell:
    """The converter of a record that is mentioned before it is compiled."""

    __slots__ = ("convert",)

    def __init__(self) -> None:
        self.convert: Convert | None = None

    def __call__(self, value: Any, later: Later) -> Any:
        """Convert a record."""
        return value if self.convert is None else self.convert(value, later)


def run(convert: Convert, value: Any) -> Any:
    """Return the converted value; raise SchemaMisfit with the whole path."""
    later: Later = []
    done = convert(value, later)
    while later:
        container, key, convert_part, part = later.pop()
        try:
            container[key] = convert_part(part, later)
        except SchemaMisfit as misfit:
            misfit.steps.append(key)
            # Searched only after an error: a path for each pending value would cost memory in every record.
            misfit.steps.extend(_path_to(container, done))
            raise
    return done


def _path_to(sought: Any, root: Any) -> list[Step]:
    """Return the steps from a container up to the root that it is in."""
    parents: dict[int, tuple[Any, Step]] = {}
    rest = [root]
    while rest:
        container = rest.pop()
        pairs = container.items() if isinstance(container, dict) else enumerate(container)
        for key, part in pairs:
            if isinstance(part, dict | list):
                parents[id(part)] = container, key
                rest.append(part)
    steps: list[Step] = []
    while sought is not root:
        sought, step = parents[id(sought)]
        steps.append(step)
    return steps


def array_of(item: ValueConverter) -> ValueConverter:
    """Return the converter of arrays."""
    convert = item.convert
    if convert is None:
        return ValueConverter(None)
    if item.is_late:

        def put_off(values: list[Any], later: Later) -> list[Any]:
            done = list(values)
            later.extend((done, number, convert, value) for number, value in enumerate(values))
            return done

        return ValueConverter(put_off)

    def each(values: list[Any], later: Later) -> list[Any]:
        done: list[Any] = []
        try:
            for value in values:
                done.append(convert(value, later))  # noqa: PERF401 - a misfit needs their number
        except SchemaMisfit as misfit:
            misfit.steps.append(len(done))
            raise
        return done

    return ValueConverter(each)


def map_of(item: ValueConverter) -> ValueConverter:
    """Return the converter of maps. It sorts their keys."""
    convert = item.convert
    if convert is None:
        # On the wire, a map has the order of its writer. Equal records must have equal JSON
        # (test_arrays_and_maps_are_converted_by_their_items).
        return ValueConverter(lambda values, later: dict(sorted(values.items())))
    if item.is_late:

        def put_off(values: dict[str, Any], later: Later) -> dict[str, Any]:
            # Sorted here: `later` is emptied from its end, and would leave the keys in another order
            # (test_arrays_and_maps_are_converted_by_their_items).
            done = dict(sorted(values.items()))
            later.extend((done, key, convert, value) for key, value in values.items())
            return done

        return ValueConverter(put_off)

    def each(values: dict[str, Any], later: Later) -> dict[str, Any]:
        done = dict(sorted(values.items()))
        for key, value in done.items():
            try:
                done[key] = convert(value, later)
            except SchemaMisfit as misfit:
                misfit.steps.append(key)
                raise
        return done

    return ValueConverter(each)
