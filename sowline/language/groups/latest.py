"""The records of a group in the order of their last changes, for fields that show the latest record."""

from collections.abc import Sequence
from typing import Any

from sortedcontainers import SortedDict

from sowline.model.json_parts import Part
from sowline.model.path import Value, value_bytes

Order = tuple[Any, ...]
"""When a record last changed, such as (time, partition, position); orders compare."""

ORDER_BYTES = 900
"""The memory of an empty order of records."""

RECORD_BYTES = 400
"""The memory of a record's order and SOW key, and of the list of its values."""


_Ordered = tuple[Order, bytes]
"""By what records are sorted: the order, then the SOW key."""


class Latest:
    """The values, in each record of a group, of the fields that are neither grouped by nor aggregated."""

    __slots__ = ("_values", "nbytes")

    def __init__(self) -> None:
        # All records are kept, and not only the latest: when that one leaves, the next one shows its fields
        # (test_the_latest_record_leaves).
        self._values: SortedDict[_Ordered, Sequence[Value]] = SortedDict()
        self.nbytes = ORDER_BYTES
        """The estimated memory of the records, in bytes."""

    def add(self, order: Order, sow_key: bytes, values: Sequence[Value]) -> None:
        """Add a record."""
        self._values[order, sow_key] = values
        self.nbytes += RECORD_BYTES + sum(map(value_bytes, values))

    def remove(self, order: Order, sow_key: bytes) -> None:
        """Remove a record that was added with this order."""
        values = self._values.pop((order, sow_key))
        self.nbytes -= RECORD_BYTES + sum(map(value_bytes, values))

    def exported(self) -> list[Any]:
        """Return the order, the SOW key and the fields of the record that changed last."""
        (order, sow_key), values = self._values.peekitem(-1)
        return [order, sow_key.decode(), values]

    def merge(self, exported: Sequence[Any]) -> None:
        """Add the record that another state exported."""
        # JSON makes lists of tuples, and these do not compare with the orders of this state
        # (test_the_latest_of_several_processes).
        order: Sequence[Part]
        order, sow_key, values = exported
        self.add(
            tuple(tuple(part) if isinstance(part, list) else part for part in order), sow_key.encode(), values
        )

    def values(self) -> Sequence[Value]:
        """Return the fields of the record that changed last; there must be one."""
        return self._values.peekitem(-1)[1]
