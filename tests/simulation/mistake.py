"""What a mistake is, how those of a module are found, and which seeds find one."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
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


def seeds_with_errors(
    mistake: Mistake,
    seeds: Iterable[int],
    known: Iterable[int],
    error_of: Callable[[int], BaseException | None],
    wanted: int,
) -> list[int]:
    """Return the first seeds that fail with a mistake, no more than are wanted; the known ones are tried first.

    `error_of` runs a seed. Raise `TypeError` where the mistake itself does: what it stands in for is called otherwise
    by now.
    """
    found: list[int] = []
    known = tuple(known)
    with ExitStack() as stack:
        for each in mistake():
            stack.enter_context(each)
        for seed in [*known, *(seed for seed in seeds if seed not in known)]:
            error = error_of(seed)
            if isinstance(error, TypeError):
                raise error
            if error is not None:
                found.append(seed)
            if len(found) == wanted:
                break
    return found
