"""The kinds of parts of a JSON document. `isinstance` alone would leave a checker with a dict of unknown types."""

from typing import Any, TypeGuard

Part = dict[str, Any] | list[Any] | str | int | float | None
"""A part as a parser returns it: with this type, `isinstance` leaves no unknown types."""


def is_object(part: object) -> TypeGuard[dict[str, Any]]:
    """Whether a part is an object."""
    return isinstance(part, dict)


def is_array(part: object) -> TypeGuard[list[Any]]:
    """Whether a part is an array."""
    return isinstance(part, list)
