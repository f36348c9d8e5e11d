"""Access paths: the records of a topic that a query must examine, and the conditions already decided for them. Pure.

Every access path leads to the same records; `explain` reports which one was taken.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from sowline.language.filter import Filter
from sowline.language.filter.tree import Node
from sowline_query_service.index.rows import RowNumbers

KEYS = "sow keys"
KEY = "key"
HASH_INDEX = "hash index"
MEMO_INDEX = "memo index"
SCAN = "scan"
HISTORY = "history"

NO_ROWS: RowNumbers = np.empty(0, np.int64)


@dataclass(slots=True)
class AccessPath:
    """Rows that are known to match, and rows that a filter must still check; each row is in one of these only."""

    name: str
    decided: RowNumbers = field(default_factory=lambda: NO_ROWS)
    checks: list[tuple[RowNumbers, Filter]] = field(default_factory=list)
    index: str = ""
    """The fields of the index that was used."""
    indexed: tuple[Node, ...] = ()
    """The conjuncts of the filter that the index has decided."""
    keys: tuple[bytes, ...] | None = None
    """The SOW keys of the only records that can match, if the access path is by keys."""
    note: str = ""
    """Why there was no better access path."""

    def without(self, rows: RowNumbers, end: int) -> "AccessPath":
        """Return the access path without these rows; there are `end` rows."""
        others = np.ones(end, np.bool_)
        others[rows] = False
        return replace(
            self,
            decided=self.decided[others[self.decided]],
            checks=[(asked[others[asked]], filter) for asked, filter in self.checks],
        )
