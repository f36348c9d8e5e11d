"""A value of a record as the text of a cell of a table."""

from typing import Any

from sowline.model.exact_numbers import write_exact

CELL_MAX = 40
"""Characters of a cell; longer ones are cut."""


def cell_text(value: Any) -> str:
    """Return a text as it is, no value as `-`, and anything else as JSON: printable, and cut to `CELL_MAX`."""
    text = value if isinstance(value, str) else "-" if value is None else write_exact(value).decode()
    text = printed(text[: CELL_MAX + 1])
    return text if len(text) <= CELL_MAX else text[: CELL_MAX - 1] + "…"


def printed(text: str) -> str:
    """Return a text with `·` for each character that can't be printed."""
    return "".join(character if character.isprintable() else "·" for character in text)
