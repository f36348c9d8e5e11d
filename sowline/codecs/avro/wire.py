"""Decodes the bytes of a record into plain values, with fastavro, and bounds the cost of hostile bytes.

A plain value is a base value: logical types are left out. An enum is the number of its symbol. A value of a union of
null and one other type is that value; of another union, it is an object with one member, whose name is the number of
the branch. (Avro encodes a record of one field like the field alone, so such records stand for the branches. fastavro
alone does not say which branch a value is of.)
"""

from graphlib import CycleError, TopologicalSorter
from io import BytesIO
from typing import Any, Final

from fastavro import schemaless_reader
from fastavro.schema import parse_schema

from sowline.codecs.avro.misfit import SchemaMisfit
from sowline.codecs.avro.types import AvroType, AvroTypes
from sowline.model.nesting import NESTING_MAX

FREE_STEPS: Final = 10_000
BYTE_STEPS: Final = 10
"""A message may have this many values, plus this many per byte of its length: values like null take no bytes."""

_VARINT_BYTES: Final = 10
_SIZES: Final = {"null": 0, "float": 4, "double": 8}
_Uses = dict[AvroType, set[AvroType]]


class WireReader:
    """Decodes messages of one writer schema."""

    def __init__(self, types: AvroTypes) -> None:
        self._root = types.root
        self._schema = _wire_schema(types)
        # fastavro's decoder recurses on C's stack, where a few thousand levels end the process, and makes as many
        # items as a block claims to have. Most schemas allow neither; for the others, the bytes are checked before.
        self._is_checked_first = not _is_bounded(types.root)

    def read(self, data: bytes) -> dict[str, Any]:
        """Return the plain value of a record; raise SchemaMisfit if the bytes are not exactly one record."""
        if self._is_checked_first:
            check_bytes(self._root, data)
        stream = BytesIO(data)
        try:
            value: dict[str, Any] = schemaless_reader(stream, self._schema, None)  # type: ignore[assignment]
        except MemoryError:
            raise
        # fastavro reports bytes that are no record by whatever exception its first wrong step raises.
        except Exception as error:
            raise SchemaMisfit(
                f"an Avro record in {len(data)} bytes", f"{type(error).__name__}: {str(error)[:100]}"
            ) from None
        # fastavro stops after the record. Bytes that follow are the sign of another schema, under which the record
        # means something else (test_bytes_after_the_record_are_refused).
        if stream.tell() != len(data):
            raise SchemaMisfit(
                f"an Avro record in {len(data)} bytes", f"{len(data) - stream.tell()} bytes after the record"
            )
        return value


# the schema that fastavro decodes with


def _wire_schema(types: AvroTypes) -> Any:
    namer = _Namer()
    named: dict[str, Any] = {}
    for reference in types.references:
        parse_schema(namer.schema_of(reference), named)
    return parse_schema(namer.definition(types.root), named)


class _Namer:
    """Writes types as schemas, with generated names: each type is defined where the text defines it."""

    def __init__(self) -> None:
        self._names: dict[AvroType, str] = {}
        self._count = 0

    def schema_of(self, part: AvroType) -> Any:
        match part.kind:
            case "record" if part not in self._names:
                return self.definition(part)
            case "record" | "reference":
                return self._names[part.itself]
            case "enum":
                return "int"
            case "fixed":
                return {"type": "fixed", "name": self._new_name(), "size": part.size}
            case "array":
                return {"type": "array", "items": self.schema_of(part.of)}
            case "map":
                return {"type": "map", "values": self.schema_of(part.of)}
            case "union" if part.is_optional:
                return [self.schema_of(branch) for branch in part.branches]
            case "union":
                return [self._branch(part, number) for number in range(len(part.branches))]
        return part.kind

    def definition(self, record: AvroType) -> Any:
        """Return the schema of a record, even if the record already has one."""
        name = self._names[record] = self._new_name()
        fields = [{"name": field.name, "type": self.schema_of(field.type)} for field in record.fields]
        return {"type": "record", "name": name, "fields": fields}

    def _branch(self, union: AvroType, number: int) -> Any:
        branch = union.branches[number]
        if branch.kind == "null":
            return "null"
        field = {"name": str(number), "type": self.schema_of(branch)}
        return {"type": "record", "name": self._new_name(), "fields": [field]}

    def _new_name(self) -> str:
        self._count += 1
        return f"t{self._count}"


# which schemas need no check


def _is_bounded(root: AvroType) -> bool:
    """Whether no record contains itself, none nests deeper than JSON may, and few values take no bytes."""
    uses = records_below(root)
    try:
        order = list(TopologicalSorter(uses).static_order())
    except CycleError:
        return False
    cost = _Cost()
    for record in order:
        cost.add(record)
    items = [part.of for record in order for part in _parts(record) if part.kind == "array"]
    return cost.heights[root] <= NESTING_MAX and all(
        cost.free_values(part) <= BYTE_STEPS * cost.size(part) for part in [*items, *order]
    )


class _Cost:
    """The least number of bytes of a value, the number of values in it without bytes, and how deep it nests."""

    def __init__(self) -> None:
        self._sizes: dict[AvroType, int] = {}
        self._free_values: dict[AvroType, int] = {}
        self.heights: dict[AvroType, int] = {}

    def add(self, record: AvroType) -> None:
        """Add a record that mentions only records which were added before."""
        types = [field.type for field in record.fields]
        self._sizes[record] = sum(map(self.size, types))
        self._free_values[record] = 1 + sum(map(self.free_values, types))
        self.heights[record] = 1 + max(map(self._height, types), default=0)

    def size(self, part: AvroType) -> int:
        if part.kind == "fixed":
            return part.size
        if part.kind in ("record", "reference"):
            return self._sizes[part.itself]
        return _SIZES.get(part.kind, 1)

    def free_values(self, part: AvroType) -> int:
        if part.kind in ("record", "reference"):
            return self._free_values[part.itself]
        return 0 if self.size(part) else 1

    def _height(self, part: AvroType) -> int:
        if part.kind in ("record", "reference"):
            return self.heights[part.itself]
        if part.items is not None:
            return 1 + self._height(part.items)
        return max(map(self._height, part.branches), default=0)


def records_below(root: AvroType) -> _Uses:
    """Return all records, each with the records that it mentions by name."""
    uses: _Uses = {}
    found = [root]
    while found:
        record = found.pop()
        if record not in uses:
            uses[record] = {part.itself for part in _parts(record) if part.kind in ("record", "reference")}
            found.extend(uses[record])
    return uses


def _parts(record: AvroType) -> list[AvroType]:
    """Return the types in a record, not following references to other records."""
    parts: list[AvroType] = []
    rest = [field.type for field in record.fields]
    while rest:
        part = rest.pop()
        parts.append(part)
        rest.extend(part.branches)
        if part.items is not None:
            rest.append(part.items)
    return parts


# the check of bytes


class _Block:
    """An array or a map whose items are being checked; `remaining` of its current block are not."""

    def __init__(self, part: AvroType, depth: int) -> None:
        self.item = part.of
        self.has_keys = part.kind == "map"
        self.has_free_items = part.kind == "array" and not _SIZES.get(part.of.kind, 1)
        self.depth = depth
        self.remaining = 0


def check_bytes(root: AvroType, data: bytes) -> None:
    """Raise SchemaMisfit if bytes do not begin with a record, nest too deep or have too many values without bytes.

    Its time grows only with the number of bytes, and it doesn't recurse.
    """
    _Check(data).run(root)


class _Check:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._rest: list[tuple[AvroType, int] | _Block] = []
        self._steps = FREE_STEPS + BYTE_STEPS * len(data)

    def run(self, root: AvroType) -> None:
        rest = self._rest
        rest.append((root, 1))
        while rest:
            self._spend(1)
            part = rest.pop()
            if isinstance(part, _Block):
                self._next_item(part)
            else:
                self._value(*part)

    def _spend(self, values: int) -> None:
        self._steps -= values
        if self._steps < 0:
            raise SchemaMisfit(f"at most {BYTE_STEPS} values for each byte", "more")

    def _value(self, part: AvroType, depth: int) -> None:
        part = part.itself
        match part.kind:
            case "record":
                self._check_depth(depth)
                self._rest.extend((field.type, depth + 1) for field in reversed(part.fields))
            case "array" | "map":
                self._check_depth(depth)
                self._rest.append(_Block(part, depth + 1))
            case "union":
                self._rest.append((part.branches[self._index(len(part.branches))], depth))
            case "enum":
                self._index(len(part.symbols))
            case "string" | "bytes":
                self._skip(self._long())
            case "int" | "long":
                self._long()
            case "boolean":
                self._skip(1)
            case "fixed":
                self._skip(part.size)
            case kind:
                self._skip(_SIZES[kind])

    def _next_item(self, block: _Block) -> None:
        if not block.remaining:
            block.remaining = self._count()
            if not block.remaining:
                return
            # Items without bytes: their count is paid at once, because a block may claim 2^62 of them
            # (test_hostile_bytes_are_refused).
            if block.has_free_items:
                self._spend(block.remaining)
                block.remaining = 1
        block.remaining -= 1
        self._rest.append(block)
        if block.has_keys:
            self._skip(self._long())
        self._rest.append((block.item, block.depth))

    def _count(self) -> int:
        count = self._long()
        # A negative count is followed by the size of the block in bytes (test_blocks_with_sizes_are_read).
        if count < 0:
            self._long()
        return abs(count)

    def _check_depth(self, depth: int) -> None:
        if depth > NESTING_MAX:
            raise SchemaMisfit(f"at most {NESTING_MAX} levels of records, arrays and maps", "more")

    def _index(self, end: int) -> int:
        index = self._long()
        if not 0 <= index < end:
            raise SchemaMisfit(f"a number from 0 to {end - 1} of a symbol or a branch", str(index))
        return index

    def _skip(self, size_bytes: int) -> None:
        if not 0 <= size_bytes <= len(self._data) - self._at:
            raise SchemaMisfit(
                "the rest of an Avro record", f"a value of {size_bytes} bytes at byte {self._at}"
            )
        self._at += size_bytes

    def _long(self) -> int:
        number = 0
        for count, byte in enumerate(self._data[self._at : self._at + _VARINT_BYTES]):
            number |= (byte & 127) << 7 * count
            if byte < 128:
                self._at += count + 1
                return (number >> 1) ^ -(number & 1)
        raise SchemaMisfit(f"an integer of at most {_VARINT_BYTES} bytes", f"none at byte {self._at}")
