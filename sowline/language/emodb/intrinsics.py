"""The metadata of a document that conditions can use, and the names of its fields."""

from typing import NamedTuple


class Intrinsics(NamedTuple):
    """The intrinsics before the write, for conditions; None is null.

    The three times are ISO 8601 in UTC, to the millisecond: `2012-06-22T20:11:53.473Z`.
    """

    id: str | None = None
    table: str | None = None
    signature: str | None = None
    deleted: bool = False
    first_update_at: str | None = None
    last_update_at: str | None = None
    last_mutate_at: str | None = None
    placement: str | None = None


UNKNOWN = Intrinsics()
"""No document: `~deleted` is false, and the others are null."""

FIELDS = {
    "~id": "id",
    "~table": "table",
    "~signature": "signature",
    "~deleted": "deleted",
    "~firstUpdateAt": "first_update_at",
    "~lastUpdateAt": "last_update_at",
    "~lastMutateAt": "last_mutate_at",
    "~placement": "placement",
}
"""The fields of `Intrinsics` by their names in conditions. `~version` is not one: it depends on the reader."""

RESERVED_KEYS = frozenset(FIELDS) | {"~version", "~tags"}
"""Keys that a document's content doesn't have at its top level: writes drop them."""
