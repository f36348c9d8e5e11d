"""The columns of a table: the field that each of them holds, and its type. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sowline.errors import SowlineError
from sowline.model.path import Path, PathError, parse_path

COLUMNS_MAX = 1000
"""Records whose fields are names of a map would make a column of each."""

DECIMAL_DIGITS_MAX = 38

NULL: Final = "null"
"""The type of a column without values. A request can't name it."""

TYPES: Final = ("bool", "int64", "uint64", "double", "text")

EXPECTED: Final = f"{', '.join(TYPES)} or decimal128(PRECISION, SCALE)"

_DECIMAL = re.compile(r"decimal128\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)")


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table. Without a `type`, its values decide; a `decimal128` has its digits, too."""

    path: Path
    type: str = ""
    precision: int = 0
    scale: int = 0

    @property
    def field(self) -> str:
        """The field at the top of records that it is in."""
        return str(self.path.steps[0])

    @property
    def name(self) -> str:
        """Its name: the path of its field, without the first slash."""
        return "".join(
            f"[{step}]" if isinstance(step, int) else f"/{step}" for step in self.path.steps
        ).removeprefix("/")


def requested_columns(given: Any) -> tuple[TableColumn, ...]:
    """Return the columns that a request names: a list of paths, or an object of paths with types.

    The type may be null. Raise `bad request`, or `bad path`.
    """
    if isinstance(given, Mapping):
        return _different(_column(path, type) for path, type in given.items())
    if isinstance(given, list | tuple):
        return _different(_column(path, None) for path in given)
    raise _invalid(
        f"expected columns as a list of paths, or as an object of paths and types, got {given!r:.60}"
    )


def bad_column(message: str) -> SowlineError:
    """Return the error about values that do not make a column."""
    return SowlineError("bad column", message)


def require_few(count: int) -> None:
    """Raise `bad column` for more columns than a table may have."""
    if count > COLUMNS_MAX:
        raise bad_column(
            f"expected a table of at most {COLUMNS_MAX} columns, got more: name the fields in columns"
        )


def _column(path: Any, type: Any) -> TableColumn:
    if not isinstance(path, str):
        raise _invalid(f"expected the path of a column as a string, got {path!r:.60}")
    try:
        found = parse_path(path)
    except PathError as error:
        raise _invalid(f"{error.message}, in columns") from None
    if type is None or type in TYPES:
        return TableColumn(found, type or "")
    decimal = _DECIMAL.fullmatch(type) if isinstance(type, str) else None
    if decimal is None:
        raise _invalid(f"expected {EXPECTED} as the type of the column {path}, got {type!r:.60}")
    precision, scale = map(int, decimal.groups())
    if not 1 <= precision <= DECIMAL_DIGITS_MAX or scale > precision:
        raise _invalid(
            f"expected a precision of 1 to {DECIMAL_DIGITS_MAX}, and a scale up to it, for the column {path}, got"
            f" {type}"
        )
    return TableColumn(found, "decimal128", precision, scale)


def _different(columns: Iterable[TableColumn]) -> tuple[TableColumn, ...]:
    found: dict[str, TableColumn] = {}
    for column in columns:
        if column.name in found:
            raise _invalid(f"expected each column once, got {column.name} twice")
        found[column.name] = column
    require_few(len(found))
    return tuple(found.values())


def _invalid(message: str) -> SowlineError:
    return SowlineError("bad request", message)
