"""Small histories for reads: one record that comes, changes, leaves the filter and goes, and another beside it."""

from tests.small_histories import (
    Body,
    got,
    opened,
    written,
)

# The smallest histories. `k` and `m` are in two partitions; `m` has a quantity that the filter does not select.

AT = "t:0@1,1@1"
K: Body = {"id": "k", "qty": 5}
M: Body = {"id": "m", "qty": 1}
TWO = [*written("w1", "t:0@1", K), *written("w2", "t:1@1", M)]
SOW_KEYS = [opened(read="all"), got("t:0@1", K, "w1", read="all", sow_key="15266929873826298676")]
"""A subscription whose message shows the SOW key of `k`."""
K_HASH = "0d3bd03b3be000bf"
FOCUSED = "/qty > 3"
QUERY = [*TWO, opened("sow", filter=FOCUSED)]


# Changes: one record that comes, changes, leaves the filter, and goes.

OLD: Body = {"id": "k", "qty": 5, "note": "x"}
NEW: Body = {"id": "k", "qty": 7}
LEFT: Body = {"id": "k", "qty": 1}
LIFE = [
    *written("w1", "t:0@1", OLD),
    *written("w2", "t:0@2", NEW),
    *written("w3", "t:0@3", LEFT),
    *written("w4", "t:0@4", {"id": "k"}, "sow_delete"),
]
COMES, CHANGES = got("t:0@1", OLD, "w1"), got("t:0@2", NEW, "w2")
LEAVES = got("t:0@3", LEFT, "w3", reason="match")
GOES = got("t:0@4", {"id": "k"}, "w4", reason="deleted")
NO_MESSAGE = "expected no message with None for record k"
GOES_AGAIN = "got the oof (deleted) at t:0@4 with {'id': 'k'}"
