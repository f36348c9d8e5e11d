"""The indexes of one topic, and which road a query takes over them."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from query_service.roads import KEYS, SCAN, Road
from query_service.rows import RowNumbers, Rows
from sowline.filter import Filter
from sowline.order import Order
from sowline.topics import TopicDefinition


class Indexes:
    """Built when a query first needs them, and kept up to date with the rows."""

    def __init__(self, definition: TopicDefinition, rows: Rows) -> None:
        self._definition = definition
        self._rows = rows

    def at_hand(self, filter: Filter, order: Order) -> bool:
        """Tell whether a query can be answered at once."""
        return True

    async def build(self, filter: Filter, order: Order, work: Callable[[float], None]) -> None:
        """Build what a query needs, in steps; others get turns in between."""

    def road(self, filter: Filter, sow_keys: tuple[bytes, ...]) -> Road:
        """Return the road to the records that match, as they are at this instant."""
        if sow_keys:
            return Road(KEYS, checks=[(self._rows.found(sow_keys), filter)])
        return Road(SCAN, checks=[(self._rows.all(), filter)])

    def ranks(self, order: Order, rows: RowNumbers) -> list[NDArray[np.float64]] | None:
        """Return, for each term of the order, a number per row to sort by; None where columns can't tell."""
        return None if order.terms else []
