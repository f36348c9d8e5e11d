"""Text in columns, for tables on a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sowline.model.cell import cell_text, printed

GAP = "  "


def columns(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]], sides: str) -> list[str]:
    """Return rows below their headings, each column as wide as needed; `sides` has `<` or `>` for each column."""
    every = [heads, *rows]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    return [
        GAP.join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)
        ).rstrip()
        for row in every
    ]


def number(value: float | None) -> str:
    """Return a number with separators; `-` if it is not known."""
    return "-" if value is None else f"{value:,.0f}"


def tenths(value: float | None) -> str:
    """Return a number with one decimal; `-` if it is not known."""
    return "-" if value is None else f"{value:,.1f}"


def table_of(rows: Sequence[Mapping[str, Any]], chars_max: int) -> list[str]:
    """Return objects as the lines of a table that is at most `chars_max` characters wide.

    Each field is a column, in the order in which they come; numbers are right-aligned, nested values are JSON.
    Columns that have no room are left out, and a last line names them.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = {name: [cell_text(row.get(name)) for row in rows] for name in names}
    sides = {name: ">" if all(_is_number(row.get(name)) for row in rows) else "<" for name in names}
    shown: list[str] = []
    room = chars_max
    for name in names:
        room -= max(len(name), *map(len, cells[name])) + len(GAP)
        if shown and room < -len(GAP):
            break
        shown.append(name)
    lines = columns(
        tuple(printed(name).upper() for name in shown),
        zip(*(cells[name] for name in shown), strict=True),
        "".join(sides[name] for name in shown),
    )
    left = names[len(shown) :]
    return lines + ([f"… and {', '.join(map(printed, left))}"[:chars_max]] if left else [])


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
