"""The canonical JSON of defaults, and of the value that stands for a missing one."""

from typing import Any, Final

from sowline.codecs.avro.leaves import formatter, parser
from sowline.codecs.avro.misfit import SchemaMisfit, excerpt
from sowline.codecs.avro.types import AvroField, AvroType

DEFAULT_VALUES_MAX: Final = 10_000
"""The number of values in one default, with the defaults of the records inside it."""

_DEPTH_MAX: Final = 64
_ZEROS: Final[dict[str, Any]] = {
    "null": None,
    "boolean": False,
    "int": 0,
    "long": 0,
    "float": 0.0,
    "double": 0.0,
    "string": "",
    "bytes": b"",
}


class Defaults:
    """The defaults and zero values of a reader schema. Do not change what they return."""

    def __init__(self) -> None:
        self._known: dict[AvroField, Any] = {}

    def of(self, field: AvroField) -> Any:
        """Return the canonical JSON of a field's default; raise SchemaMisfit, as `bad schema`, if it is wrong."""
        if field not in self._known:
            self._known[field] = _Expansion().default(field)
        return self._known[field]

    def zero(self, part: AvroType) -> Any:
        """Return the canonical JSON of a type's zero value: null where it may be, a record of zeros and defaults."""
        return _Expansion().zero(part)


class _Expansion:
    """Makes one value. Records that mention each other can make its size exponential, so it has a bound."""

    def __init__(self) -> None:
        self._values = 0
        self._depth = 0

    def default(self, field: AvroField) -> Any:
        try:
            return self._value(field.type, field.default)
        except SchemaMisfit as misfit:
            misfit.reason = "bad schema"
            misfit.steps.append(field.name)
            raise

    def _count(self) -> None:
        self._values += 1
        # A record may contain itself, or mention the next record twice
        # (test_a_default_that_never_ends_is_a_bad_schema, test_a_default_that_doubles_at_each_level_is_a_bad_schema).
        if self._values > DEFAULT_VALUES_MAX or self._depth > _DEPTH_MAX:
            raise SchemaMisfit(
                f"a default of at most {DEFAULT_VALUES_MAX} values and {_DEPTH_MAX} levels",
                "more",
                "bad schema",
            )

    def _value(self, part: AvroType, raw: Any) -> Any:
        self._count()
        self._depth += 1
        part = part.itself
        try:
            match part.kind:
                case "record":
                    return self._record(part, raw)
                case "array":
                    return [self._value(part.of, item) for item in _checked(raw, list)]
                case "map":
                    members = sorted(_checked(raw, dict).items())
                    return {key: self._value(part.of, value) for key, value in members}
                case "union":
                    return self._branch(part, raw)
            return _leaf_default(part, raw)
        finally:
            self._depth -= 1

    def _record(self, record: AvroType, raw: Any) -> dict[str, Any]:
        values = _checked(raw, dict)
        done = {}
        for field in record.fields:
            if field.name in values:
                done[field.name] = self._value(field.type, values[field.name])
            elif field.has_default:
                done[field.name] = self._value(field.type, field.default)
            else:
                raise SchemaMisfit(f"a default with the field {field.name}", "none")
        return done

    def _branch(self, union: AvroType, raw: Any) -> Any:
        for branch in union.branches:
            try:
                return self._value(branch, raw)
            except SchemaMisfit as misfit:
                # The limit was exceeded: trying the next branch would hide that.
                if misfit.reason == "bad schema":
                    raise
        raise SchemaMisfit(f"a default of {union}", excerpt(raw))

    def zero(self, part: AvroType) -> Any:
        self._count()
        self._depth += 1
        part = part.itself
        try:
            match part.kind:
                case "record":
                    return {field.name: self._zero_field(field) for field in part.fields}
                case "array":
                    return []
                case "map":
                    return {}
                case "union":
                    return None if part.null_index >= 0 else self.zero(part.branches[0])
            return _leaf_zero(part)
        finally:
            self._depth -= 1

    def _zero_field(self, field: AvroField) -> Any:
        return self._value(field.type, field.default) if field.has_default else self.zero(field.type)


def _checked(raw: Any, kind: type) -> Any:
    if type(raw) is not kind:
        raise SchemaMisfit("an array" if kind is list else "an object", excerpt(raw))
    return raw


def _leaf_default(leaf: AvroType, raw: Any) -> Any:
    # A schema writes the default of a logical type as its base value, such as a date as days: it is checked without
    # the logical type (test_defaults_are_in_canonical_form).
    plain = AvroType(leaf.kind, size=leaf.size, symbols=leaf.symbols)
    if leaf.kind in ("bytes", "fixed"):
        try:
            base: Any = raw.encode("latin-1")
        except (AttributeError, UnicodeEncodeError):
            raise SchemaMisfit("a text of characters that stand for bytes", excerpt(raw)) from None
        if leaf.kind == "fixed" and len(base) != leaf.size:
            raise SchemaMisfit(f"{leaf.size} bytes", f"{len(base)} bytes")
    else:
        base = parser(plain)(raw)
    format_base = formatter(leaf)
    return base if format_base is None else format_base(base)


def _leaf_zero(leaf: AvroType) -> Any:
    if leaf.kind == "enum":
        return leaf.default_symbol or leaf.symbols[0]
    # The empty text is not a UUID: the zero value must be valid (test_a_missing_field_of_any_type_is_filled).
    if leaf.logical == "uuid" and leaf.kind == "string":
        return "00000000-0000-0000-0000-000000000000"
    base = bytes(leaf.size) if leaf.kind == "fixed" else _ZEROS[leaf.kind]
    format_base = formatter(leaf)
    return base if format_base is None else format_base(base)
