"""Text in columns, for tables on a terminal."""

from collections.abc import Iterable


def columns(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]], sides: str) -> list[str]:
    """Return rows below their headings, each column as wide as needed; `sides` has `<` or `>` for each column."""
    every = [heads, *rows]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    return [
        "  ".join(
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
