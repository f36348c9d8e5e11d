"""Resolves a writer schema against a reader schema: plain values of the writer become canonical JSON of the reader.

The rules are those of Avro's specification. Where it leaves a choice: a reader's union takes the branch of the same
kind and full name, else the first of the same name, else the first that the writer's type resolves to. Two different
logical types do not resolve. The names of records do not count in a delta.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any, Final

from sowline.codecs.avro.defaults import Defaults
from sowline.codecs.avro.leaves import check_int, float_json, formatter, round_to_float
from sowline.codecs.avro.misfit import SchemaMisfit
from sowline.codecs.avro.steps import Cell, Convert, Later, ValueConverter, array_of, map_of
from sowline.codecs.avro.types import AvroField, AvroType
from sowline.model.path import Step

_Leaf = Callable[[Any], Any]

_PROMOTED: Final = {
    ("int", "long"),
    ("int", "float"),
    ("int", "double"),
    ("long", "float"),
    ("long", "double"),
    ("float", "double"),
    ("string", "bytes"),
    ("bytes", "string"),
}
_TEXTS: Final = ("string", "bytes")


def resolved(writer: AvroType, reader: AvroType, defaults: Defaults) -> Convert:
    """Return the function from a plain value of the writer's record to canonical JSON of the reader's.

    Raise SchemaMisfit with the reason `incompatible schema` if no record of the writer can be read. The function
    raises it for a value that can't be read, like a null where the reader has no null.
    """
    return _Resolver(defaults, is_strict=False).run(writer, reader)


def check_resolves(writer: AvroType, reader: AvroType, defaults: Defaults) -> None:
    """Raise SchemaMisfit with the reason `incompatible schema` unless each record of the writer can be read.

    Canonical JSON must be convertible too: text stays text, bytes stay bytes, and logical types stay the same.
    """
    _Resolver(defaults, is_strict=True).run(writer, reader)


class _Resolver:
    """Compiles the converters of one pair of schemas; if strict, refuses a pair that some values can't pass."""

    def __init__(self, defaults: Defaults, is_strict: bool) -> None:
        self._defaults = defaults
        self._is_strict = is_strict
        self._cells: dict[tuple[AvroType, AvroType], Cell] = {}
        self._queue: list[tuple[AvroType, AvroType, tuple[Step, ...]]] = []
        self._at: list[Step] = []
        """The path of what is being compiled."""

    def run(self, writer: AvroType, reader: AvroType) -> Convert:
        self._check_names(writer, reader)
        root = self._cell(writer, reader)
        while self._queue:
            written, read, path = self._queue.pop()
            self._at = list(path)
            self._cells[written, read].convert = self._compiled(written, read)
        return root

    def _cell(self, writer: AvroType, reader: AvroType) -> Cell:
        pair = writer, reader
        if pair not in self._cells:
            self._cells[pair] = Cell()
            self._queue.append((writer, reader, tuple(self._at)))
        return self._cells[pair]

    def _compiled(self, writer: AvroType, reader: AvroType) -> Convert | None:
        path = tuple(self._at)
        try:
            return self._record(writer, reader).convert
        except SchemaMisfit as misfit:
            if self._is_strict or not path:
                misfit.steps.extend(reversed(path))
                raise
            # By Avro's rules, this matters only once a message has such a value
            # (test_a_value_may_be_what_can_not_be_read).
            return _Refusal(misfit)

    # one pair of types

    def _part(self, writer: AvroType, reader: AvroType) -> ValueConverter:
        if writer.kind == "union":
            return self._from_union(writer, reader)
        if reader.kind == "union":
            return self._to_union(writer, reader)
        is_late = "reference" in (writer.kind, reader.kind)
        written, read = writer.itself, reader.itself
        match written.kind, read.kind:
            case "record", "record":
                self._check_names(written, read)
                if is_late:
                    return ValueConverter(self._cell(written, read), is_late=True)
                return self._record(written, read)
            case "array", "array":
                return array_of(self._part(written.of, read.of))
            case "map", "map":
                return map_of(self._part(written.of, read.of))
            case "enum", "enum":
                self._check_names(written, read)
                return ValueConverter(self._enum(written, read))
            case (kind, other) if kind == other or (kind, other) in _PROMOTED:
                return ValueConverter(_lifted(self._leaf(written, read)))
        raise _incompatible(written, read)

    def _from_union(self, writer: AvroType, reader: AvroType) -> ValueConverter:
        parts: list[ValueConverter] = []
        refusal: SchemaMisfit | None = None
        for branch in writer.branches:
            try:
                parts.append(self._part(branch, reader))
            except SchemaMisfit as misfit:
                if self._is_strict:
                    raise
                refusal = misfit
                parts.append(ValueConverter(_Refusal(misfit)))
        if refusal and all(isinstance(part.convert, _Refusal) for part in parts):
            raise refusal
        is_late = any(part.is_late for part in parts)
        null = writer.null_index
        if writer.is_optional:
            return ValueConverter(_optional(parts[null].convert, parts[1 - null].convert), is_late)
        return ValueConverter(_tagged([part.convert for part in parts], null), is_late)

    def _to_union(self, writer: AvroType, reader: AvroType) -> ValueConverter:
        branches = sorted(reader.branches, key=lambda branch: _distance(writer.itself, branch.itself))
        refusals: list[SchemaMisfit] = []
        for branch in branches:
            try:
                return self._part(writer, branch)
            except SchemaMisfit as misfit:
                refusals.append(misfit)
        # The difference within a changed record tells the user more than "none of the branches".
        raise next((misfit for misfit in refusals if misfit.steps), _incompatible(writer, reader))

    def _check_names(self, writer: AvroType, reader: AvroType) -> None:
        # A delta's record need not be called like the record that it changes: both may be classes of one program.
        if not reader.is_delta and not _have_one_name(writer, reader):
            raise _incompatible(writer, reader)

    # leaves

    def _leaf(self, writer: AvroType, reader: AvroType) -> _Leaf | None:
        if writer.kind == reader.kind == "fixed":
            self._check_names(writer, reader)
            if writer.size != reader.size:
                raise SchemaMisfit(f"{reader.size} bytes", f"{writer.size} bytes", "incompatible schema")
        self._check_logical(writer, reader)
        # JSON of earlier bytes is base64: taken for text, it would be another value
        # (test_text_and_bytes_are_promoted_when_read).
        if self._is_strict and writer.kind != reader.kind and reader.kind in _TEXTS:
            raise _incompatible(writer, reader)
        return _composed(
            check_int if writer.kind == "int" else None, _promotion(writer, reader), _form(writer, reader)
        )

    def _check_logical(self, writer: AvroType, reader: AvroType) -> None:
        if not self._is_strict and not (writer.logical and reader.logical):
            return
        if (writer.logical, writer.scale) != (reader.logical, reader.scale):
            raise _incompatible(writer, reader)

    def _enum(self, writer: AvroType, reader: AvroType) -> Convert:
        symbols: list[str | None] = [
            symbol if symbol in reader.symbols else reader.default_symbol for symbol in writer.symbols
        ]
        unknown = [symbol for symbol, known in zip(writer.symbols, symbols, strict=True) if known is None]
        if self._is_strict and unknown:
            raise _unknown_symbol(reader, unknown[0])

        def convert(number: Any, later: Later) -> str:
            # fastavro reads symbols as plain integers, so it accepts any number
            # (test_bytes_that_are_no_value_are_refused).
            if not 0 <= number < len(symbols):
                raise SchemaMisfit(f"the number of a symbol, from 0 to {len(symbols) - 1}", str(number))
            symbol: str | None = symbols[number]
            if symbol is None:
                raise _unknown_symbol(reader, writer.symbols[number])
            return symbol

        return convert

    # records

    def _record(self, writer: AvroType, reader: AvroType) -> ValueConverter:
        sources = _sources(writer, reader)
        plan: list[tuple[str, Any, Convert | None, bool]] = []
        for field in reader.fields:
            source = sources.get(field.name)
            if source is not None:
                part = self._field(source, field)
                plan.append((field.name, source.name, part.convert, part.is_late))
            elif not reader.is_delta:
                plan.append((field.name, None, self._default(field), False))
        as_it_is = [(field.name, field.name, None, False) for field in writer.fields]
        if plan == as_it_is and not reader.is_delta:
            return ValueConverter(None)
        return ValueConverter(_record_reader(plan, leaves_out_nulls=reader.is_delta))

    def _field(self, source: AvroField, field: AvroField) -> ValueConverter:
        self._at.append(field.name)
        try:
            return self._part(source.type, field.type)
        except SchemaMisfit as misfit:
            misfit.steps.append(field.name)
            raise
        finally:
            self._at.pop()

    def _default(self, field: AvroField) -> Convert:
        if not field.has_default:
            misfit = SchemaMisfit(
                "a field of the writer schema, or a default", "neither", reason="incompatible schema"
            )
            misfit.steps.append(field.name)
            raise misfit
        default = self._defaults.of(field)
        return lambda value, later: default


def _sources(writer: AvroType, reader: AvroType) -> dict[str, AvroField]:
    """Return the writer's fields by the names of the reader's fields that read them."""
    by_name = {field.name: field for field in writer.fields}
    sources = {field.name: by_name[field.name] for field in reader.fields if field.name in by_name}
    for field in reader.fields:
        if field.name not in sources:
            renamed = next((by_name[alias] for alias in field.aliases if alias in by_name), None)
            if renamed is not None:
                sources[field.name] = renamed
    return sources


def _record_reader(plan: list[tuple[str, Any, Convert | None, bool]], *, leaves_out_nulls: bool) -> Convert:
    def read(value: dict[str, Any], later: Later) -> dict[str, Any]:
        done: dict[str, Any] = {}
        name = ""
        try:
            for name, source, convert, is_late in plan:
                part = None if source is None else value[source]
                if part is None and leaves_out_nulls:
                    continue
                if convert is None:
                    done[name] = part
                elif is_late:
                    done[name] = None
                    later.append((done, name, convert, part))
                else:
                    done[name] = convert(part, later)
        except SchemaMisfit as misfit:
            misfit.steps.append(name)
            raise
        return done

    return read


def _optional(null: Convert | None, other: Convert | None) -> Convert | None:
    if null is None and other is None:
        return None

    def convert(value: Any, later: Later) -> Any:
        if value is None:
            return None if null is None else null(None, later)
        return value if other is None else other(value, later)

    return convert


def _tagged(branches: list[Convert | None], null: int) -> Convert:
    by_number = {str(number): convert for number, convert in enumerate(branches)}
    of_null = branches[null] if null >= 0 else None

    def convert(value: Any, later: Later) -> Any:
        if value is None:
            return None if of_null is None else of_null(None, later)
        ((number, inner),) = value.items()
        convert_inner = by_number[number]
        return inner if convert_inner is None else convert_inner(inner, later)

    return convert


class _Refusal:
    """A converter that refuses each value, for the reason found when it was compiled."""

    def __init__(self, misfit: SchemaMisfit) -> None:
        self._misfit = misfit

    def __call__(self, value: Any, later: Later) -> Any:
        # A new error for each value: those that pass it on add their steps to it.
        misfit = SchemaMisfit(self._misfit.expected, self._misfit.got, self._misfit.reason)
        misfit.steps.extend(self._misfit.steps)
        raise misfit


def _distance(writer: AvroType, branch: AvroType) -> int:
    """Return how little two types have in common: the order in which a union's branches are tried."""
    if writer.kind != branch.kind:
        return 3
    return 0 if writer.name == branch.name else 1 if _have_one_name(writer, branch) else 2


def _have_one_name(writer: AvroType, reader: AvroType) -> bool:
    return _unqualified(writer.name) in map(_unqualified, (reader.name, *reader.aliases))


def _unqualified(name: str) -> str:
    return name.rpartition(".")[2]


def _incompatible(writer: AvroType, reader: AvroType) -> SchemaMisfit:
    return SchemaMisfit(str(reader), str(writer), "incompatible schema")


def _unknown_symbol(reader: AvroType, symbol: str) -> SchemaMisfit:
    known = ", ".join(reader.symbols[:20])
    return SchemaMisfit(f"one of {known}, or a default symbol", repr(symbol), "incompatible schema")


def _lifted(convert: _Leaf | None) -> Convert | None:
    if convert is None:
        return None
    return lambda value, later: convert(value)


def _composed(*steps: _Leaf | None) -> _Leaf | None:
    """Return the functions that are not None as one."""
    functions = [step for step in steps if step]
    return reduce(_both, functions) if functions else None


def _both(first: _Leaf, second: _Leaf) -> _Leaf:
    return lambda value: second(first(value))


def _promotion(writer: AvroType, reader: AvroType) -> _Leaf | None:
    match writer.kind, reader.kind:
        case "int" | "long", "float":
            return lambda value: round_to_float(float(value))
        case "int" | "long", "double":
            return float
        case "string", "bytes":
            return str.encode
        case "bytes", "string":
            return _decoded
        case "float", "double":
            # The digits of the float, not those of the double with the same value: an earlier record's JSON has only
            # these, and its upgrade has to give what reading its bytes again gives.
            return float_json
    return None


def _form(writer: AvroType, reader: AvroType) -> _Leaf | None:
    # The writer's integer is checked, whatever it is promoted to, and a promoted float has its form.
    if reader.kind == "int" and not reader.logical:
        return None
    return None if (writer.kind, reader.kind) == ("float", "double") else formatter(reader)


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise SchemaMisfit("text in UTF-8", repr(data[:60])) from None
