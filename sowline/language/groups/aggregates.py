"""The aggregates: results over a multiset of values, kept up to date as values are added and removed.

A result depends on the values alone, never on their order. After any number of changes, the live result equals a
newly computed one to the last bit. Sums are therefore exact until the last step, and the choice of one value among
equal ones is fixed. Aggregates of one argument may share a state: SUM and AVG are two results of one `Sums`.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter, methodcaller
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from sowline.language.groups.ranks import Distinct, OrderedValues, Texts
from sowline.language.groups.sums import Count, Squares, Sums
from sowline.model.path import Scalar

DELIMITER: Final = ","
"""The default separator of GROUP_CONCAT."""


class AggregateState(Protocol):
    """The state of an aggregate for the values of one argument in one group.

    A NULL never changes it. Two values that are equal and of one type are the same value, -0.0 and 0.0 too.
    """

    @property
    def nbytes(self) -> int:
        """The estimated memory in bytes of the values that it keeps; 0 if it keeps none."""
        ...

    def add(self, value: Scalar) -> None:
        """Add a value."""

    def remove(self, value: Scalar) -> None:
        """Remove a value that was added."""

    def exported(self) -> Any:
        """Return the part of this state that another one needs, as JSON that holds integers of any size."""

    def merge(self, exported: Any) -> None:
        """Add an exported state, whose values are not those of this state."""


class Aggregate(NamedTuple):
    """An aggregate: a function that makes a state, and one that reads the result from it."""

    state: Callable[[], AggregateState]
    result: Callable[[Any], Scalar]


AGGREGATES: Final[Mapping[str, Aggregate]] = MappingProxyType(
    {
        "ANY": Aggregate(OrderedValues, OrderedValues.smallest),
        "AVG": Aggregate(Sums, Sums.average),
        "COUNT": Aggregate(Count, attrgetter("count")),
        "COUNT_DISTINCT": Aggregate(Distinct, attrgetter("count")),
        "GROUP_CONCAT": Aggregate(Texts, methodcaller("joined", DELIMITER)),
        "MAX": Aggregate(OrderedValues, OrderedValues.largest),
        "MIN": Aggregate(OrderedValues, OrderedValues.smallest),
        "STDDEV_POP": Aggregate(Squares, Squares.of_population),
        "STDDEV_SAMP": Aggregate(Squares, Squares.of_sample),
        "SUM": Aggregate(Sums, Sums.sum),
        "UNIQUE": Aggregate(Distinct, Distinct.unique),
    }
)


def aggregate(name: str, delimiter: str = DELIMITER) -> Aggregate:
    """Return the aggregate with this name; `delimiter` is that of GROUP_CONCAT."""
    if name == "GROUP_CONCAT":
        return Aggregate(Texts, methodcaller("joined", delimiter))
    return AGGREGATES[name]
