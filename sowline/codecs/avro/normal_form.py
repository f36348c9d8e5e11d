"""Turns JSON into canonical JSON of a schema: fields in order, defaults added, each value checked.

A value of a union carries no name of its branch. Its branch is the one that the value fits best, and the first of
several. A value fits better if it is in canonical form already: an integer fits `long` better than `double`. A record
fits an object that names only its fields, and all those without a default. Values inside an object or an array count
down to `FIT_DEPTH` levels.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal

from sowline.codecs.avro.defaults import Defaults
from sowline.codecs.avro.leaves import Convert as Parse
from sowline.codecs.avro.leaves import formatter, parser
from sowline.codecs.avro.misfit import SchemaMisfit, excerpt
from sowline.codecs.avro.steps import Cell, Convert, Later, ValueConverter, array_of, map_of
from sowline.codecs.avro.types import AvroField, AvroType

Missing = Literal["refuse", "leave", "fill"]
"""How a missing field without a default is treated: refused, left missing, or filled with its zero value."""

FIT_DEPTH: Final = 3
_NO, _BARELY_FITS, _FITS, _IS_CANONICAL = range(4)


class _Leaf:
    """Reads and writes JSON of one type without parts."""

    def __init__(self, leaf: AvroType, is_earlier: bool) -> None:
        parse = _lenient_parser(leaf) if is_earlier else parser(leaf)
        to_json = formatter(leaf)
        self.canonical: Parse = parse if to_json is None else lambda value: to_json(parse(value))

    def fit(self, value: Any) -> int:
        try:
            done = self.canonical(value)
        except SchemaMisfit:
            return _NO
        # In Python, 1 and 1.0 are equal, but only 1 is canonical for `long`
        # (test_json_is_of_the_branch_that_it_fits_best).
        return _IS_CANONICAL if type(done) is type(value) and done == value else _FITS


def _lenient_parser(leaf: AvroType) -> Parse:
    """Return a parser that takes the JSON of earlier schemas as well."""
    strict = parser(leaf)
    if leaf.kind == "enum" and leaf.default_symbol is not None:
        return lambda value: leaf.default_symbol if _is_unknown(value, leaf) else strict(value)
    if leaf.kind in ("int", "long") and not leaf.logical:
        return lambda value: strict(int(value) if _is_whole(value) else value)
    return strict


def _is_unknown(value: Any, leaf: AvroType) -> bool:
    return type(value) is str and value not in leaf.symbols


def _is_whole(value: Any) -> bool:
    return type(value) is float and value.is_integer()


@dataclass(frozen=True)
class Rules:
    """How JSON is read. `is_earlier` takes JSON of an earlier schema: other names, other fields, other numbers."""

    missing: Missing = "refuse"
    is_earlier: bool = False


class Normalizer:
    """Turns JSON into canonical JSON under one reader schema and one set of rules."""

    def __init__(self, root: AvroType, defaults: Defaults, rules: Rules) -> None:
        self._defaults = defaults
        self._rules = rules
        self._leaves: dict[AvroType, _Leaf] = {}
        self._cells: dict[AvroType, Cell] = {}
        self._queue: list[AvroType] = []
        self.run: Convert = self._cell(root)
        """The converter of a whole object."""
        while self._queue:
            record = self._queue.pop()
            self._cells[record].convert = self._record(record)

    def _cell(self, record: AvroType) -> Cell:
        if record not in self._cells:
            self._cells[record] = Cell()
            self._queue.append(record)
        return self._cells[record]

    def _part(self, part: AvroType) -> ValueConverter:
        match part.kind:
            case "reference":
                return ValueConverter(self._cell(part.itself), is_late=True)
            case "record":
                return ValueConverter(self._record(part))
            case "array":
                return _checked(list, "an array", array_of(self._part(part.of)))
            case "map":
                return _checked(dict, "an object", map_of(self._part(part.of)))
            case "union":
                return self._union(part)
        canonical = self._leaf(part).canonical
        return ValueConverter(lambda value, later: canonical(value))

    def _leaf(self, leaf: AvroType) -> _Leaf:
        if leaf not in self._leaves:
            self._leaves[leaf] = _Leaf(leaf, self._rules.is_earlier)
        return self._leaves[leaf]

    # unions

    def _union(self, union: AvroType) -> ValueConverter:
        parts = [self._part(branch) for branch in union.branches]
        converts = [part.convert for part in parts]
        is_late = any(part.is_late for part in parts)
        only = converts[1 - union.null_index] if union.is_optional else None

        def convert(value: Any, later: Later) -> Any:
            if only is not None:
                return None if value is None else only(value, later)
            chosen = converts[self.branch(union, value)]
            return value if chosen is None else chosen(value, later)

        return ValueConverter(convert, is_late)

    def branch(self, union: AvroType, value: Any) -> int:
        """Return the number of the branch that a value is of; raise SchemaMisfit if it fits none."""
        if union.is_optional:
            return union.null_index if value is None else 1 - union.null_index
        # Without a bound on the depth, the unions further down would be compared again at each level, in exponential
        # time (test_a_union_of_records_takes_no_exponential_time).
        fits = [self._fit(branch, value, FIT_DEPTH) for branch in union.branches]
        best = max(fits)
        if best == _NO:
            raise SchemaMisfit(str(union), excerpt(value))
        return fits.index(best)

    def _fit(self, part: AvroType, value: Any, depth: int) -> int:
        part = part.itself
        match part.kind:
            case "record":
                return self._record_fit(part, value, depth) if type(value) is dict else _NO
            case "array":
                return self._all_fit(part.of, value, depth) if type(value) is list else _NO
            case "map":
                return self._all_fit(part.of, value.values(), depth) if type(value) is dict else _NO
            case "union":
                return max(self._fit(branch, value, depth) for branch in part.branches)
        return self._leaf(part).fit(value)

    def _all_fit(self, item: AvroType, values: Any, depth: int) -> int:
        if not depth:
            return _IS_CANONICAL
        return min((self._fit(item, value, depth - 1) for value in values), default=_IS_CANONICAL)

    def _record_fit(self, record: AvroType, value: dict[str, Any], depth: int) -> int:
        fit = _IS_CANONICAL
        found = 0
        for field in record.fields:
            name = self._name_in(field, value)
            if name is not None:
                found += 1
                if depth:
                    fit = min(fit, self._fit(field.type, value[name], depth - 1))
            elif field.has_default:
                fit = min(fit, _FITS)
            else:
                fit = min(fit, _NO if self._rules.missing == "refuse" else _BARELY_FITS)
        # A record that has lost a field is the one that still shares others
        # (test_upgraded_finds_the_record_of_a_union_by_its_fields).
        if found < len(value):
            fit = min(fit, _NO if not self._rules.is_earlier else _FITS if found else _BARELY_FITS)
        return fit

    # records

    def _name_in(self, field: AvroField, value: dict[str, Any]) -> str | None:
        """Return the name under which an object has a field; None if it has none."""
        return field.name if field.name in value else self._alias_in(field, value)

    def _alias_in(self, field: AvroField, value: dict[str, Any]) -> str | None:
        if self._rules.is_earlier:
            return next((alias for alias in field.aliases if alias in value), None)
        return None

    def _record(self, record: AvroType) -> Convert:
        plan = [(field, self._part(field.type)) for field in record.fields]
        names = frozenset(field.name for field in record.fields)

        def convert(value: Any, later: Later) -> dict[str, Any]:
            if type(value) is not dict:
                raise SchemaMisfit("an object", excerpt(value))
            done: dict[str, Any] = {}
            for field, part in plan:
                source: str | None = field.name
                if source not in value:
                    source = self._alias_in(field, value)
                if source is None:
                    self._add_missing(done, field)
                elif part.convert is None:
                    done[field.name] = value[source]
                elif part.is_late:
                    # Reserves the field's position: canonical JSON has the fields in the schema's order.
                    done[field.name] = None
                    later.append((done, field.name, part.convert, value[source]))
                else:
                    done[field.name] = _converted(part.convert, value[source], later, field.name)
            # A misspelled field must not be dropped silently (test_a_writer_names_only_fields_of_the_schema).
            if not self._rules.is_earlier and not names.issuperset(value):
                raise _unknown_field(value, names)
            return done

        return convert

    def _add_missing(self, done: dict[str, Any], field: AvroField) -> None:
        if field.has_default:
            done[field.name] = self._defaults.of(field)
        elif self._rules.missing == "fill":
            done[field.name] = self._defaults.zero(field.type)
        elif self._rules.missing == "refuse":
            misfit = SchemaMisfit(f"{field.type}: a field without a default", "none", "incomplete record")
            misfit.steps.append(field.name)
            raise misfit


def _converted(convert: Convert, value: Any, later: Later, name: str) -> Any:
    try:
        return convert(value, later)
    except SchemaMisfit as misfit:
        misfit.steps.append(name)
        raise


def _unknown_field(value: dict[str, Any], names: frozenset[str]) -> SchemaMisfit:
    unknown = next(name for name in value if name not in names)
    misfit = SchemaMisfit("a field of the schema", repr(unknown[:60]))
    misfit.steps.append(unknown)
    return misfit


def _checked(kind: type, expected: str, part: ValueConverter) -> ValueConverter:
    convert = part.convert

    def check(value: Any, later: Later) -> Any:
        if type(value) is not kind:
            raise SchemaMisfit(expected, excerpt(value))
        return value if convert is None else convert(value, later)

    return ValueConverter(check, part.is_late)
