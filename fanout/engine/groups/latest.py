"""The records of a group in the order of their last changes, for fields that show the latest record."""

from collections.abc import Sequence
from typing import Any

from sortedcontainers import SortedDict

from sowline.model.path import Value

Order = tuple[Any, ...]
"""When a record last changed, such as (time, partition, position); orders compare."""


class Latest:
    """The values, in each record of a group, of the fields that are neither grouped by nor aggregated."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values = SortedDict()

    def add(self, order: Order, sow_key: bytes, values: Sequence[Value]) -> None:
        """Add a record."""
        self._values[order, sow_key] = values

    def remove(self, order: Order, sow_key: bytes) -> None:
        """Remove a record that was added with this order."""
        del self._values[order, sow_key]

    def values(self) -> Sequence[Value]:
        """Return the fields of the record that changed last; there must be one."""
        values: Sequence[Value] = self._values.peekitem(-1)[1]
        return values
