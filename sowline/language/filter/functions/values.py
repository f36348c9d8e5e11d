"""Functions that choose one of several values, and constants as functions (NaN has no literal)."""

from math import nan

from sowline.language.filter.evaluate import truth
from sowline.language.filter.functions.registry import Function, scalar
from sowline.model.path import Scalar


def coalesce(*values: Scalar) -> Scalar:
    """Return the first value that is not NULL."""
    return next((value for value in values if value is not None), None)


def choose(condition: Scalar, chosen: Scalar, otherwise: Scalar) -> Scalar:
    """Return the chosen value. A compiled filter evaluates only that argument (see `closures.choosing`)."""
    return chosen if truth(condition) else otherwise


FUNCTIONS = (
    Function("COALESCE", (scalar,), coalesce, repeats=True, takes_null=True),
    Function("IF", (scalar, scalar, scalar), choose, takes_null=True),
    Function("TRUE_VALUE", (), lambda: True),
    Function("FALSE_VALUE", (), lambda: False),
    Function("NAN_VALUE", (), lambda: nan),
)
