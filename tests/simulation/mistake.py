"""What a mistake is, and how those of a module are found."""

from collections.abc import Callable, Mapping
from typing import Any

Mistake = Callable[[], list[Any]]
"""Returns the patches that make a mistake."""


def mistakes_in(module: Mapping[str, Any]) -> dict[str, Mistake]:
    """Return the mistakes among the names of a module, each by what it is."""
    return {
        name.strip("_").replace("_", " "): made
        for name, made in module.items()
        if name.startswith("_")
        and callable(made)
        and getattr(made, "__annotations__", {}).get("return") == list[Any]
    }
