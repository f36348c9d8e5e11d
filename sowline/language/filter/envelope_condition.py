"""Evaluates an EmoDB condition on an envelope, which holds a record (as `DOCUMENT`) and its metadata.

`sowline.language.filter.envelope` explains envelopes.
"""

from collections.abc import Callable
from typing import Any

from sowline.language.emodb import Condition, Intrinsics

DOCUMENT = "document"

TAGS = "~tags"
"""The field in which conditions see the tags of a document's last write, if there are any."""


def meeting(condition: Condition) -> Callable[[dict[str, Any]], bool]:
    """Return a function that tells whether the record in an envelope meets the condition."""
    sees_tags = TAGS in condition.text

    def meets(envelope: dict[str, Any]) -> bool:
        record, intrinsics = envelope[DOCUMENT], envelope["intrinsics"]
        # Only documents have intrinsics. A condition on the id or the table of another record would otherwise find
        # null.
        if intrinsics is None:
            intrinsics = Intrinsics(id=envelope["sow_key"], table=envelope["topic"])
        if sees_tags and envelope["tags"]:
            record = {**record, TAGS: list(envelope["tags"])}
        return condition.matches_about(record, intrinsics)

    return meets
