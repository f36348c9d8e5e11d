"""x."""

from typing import Any


def read_dictionary(xml: str) -> dict[str, Any]:
    """X."""
    raise NotImplementedError
