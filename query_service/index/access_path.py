"""Access paths: the records of a topic that a query must examine, and the conditions already decided for them. Pure.

Every access path leads to the same records; `explain` reports which one was taken.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from query_service.index.rows import RowNumbers
from sowline.filter import Filter
from sowline.filter.tree import Node

KEYS = "sow keys"
KEY = "key"
HASH_INDEX = "hash index"
MEMO_INDEX = "memo index"
SCAN = "scan"
HISTORY = "history"

NO_ROWS: RowNumbers = np.empty(0, np.int64)


@dataclass(slots=True)
class AccessPath:
    """Rows known to match, and rows of which a filter must still be asked; no row is in two of them."""

    name: str
    decided: RowNumbers = field(default_factory=lambda: NO_ROWS)
    checks: list[tuple[RowNumbers, Filter]] = field(default_factory=list)
    index: str = ""
    """The fields of the index that was used."""
    indexed: tuple[Node, ...] = ()
    """The conjuncts of the filter that the index has answered."""
    keys: tuple[bytes, ...] | None = None
    """The SOW keys of the only records that can match, where the access path is by these."""
    note: str = ""
    """Why there was no better access path."""

    def without(self, rows: RowNumbers, end: int) -> "AccessPath":
        """Return the access path to all but these of `end` rows."""
        others = np.ones(end, np.bool_)
        others[rows] = False
        return replace(
            self,
            decided=self.decided[others[self.decided]],
            checks=[(asked[others[asked]], filter) for asked, filter in self.checks],
        )
