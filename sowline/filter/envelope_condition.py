"""A condition of documents, asked of an envelope: its `DOCUMENT` is the record; what is known of it lies beside."""

from collections.abc import Callable
from typing import Any

from sowline.emodb import Condition, Intrinsics

DOCUMENT = "document"

TAGS = "~tags"
"""The field under which a condition sees the tags of a document's last write, where it has any."""


def meeting(condition: Condition) -> Callable[[dict[str, Any]], bool]:
    """Whether the condition holds of the record in an envelope."""
    sees_tags = TAGS in condition.text

    def meets(envelope: dict[str, Any]) -> bool:
        record, intrinsics = envelope[DOCUMENT], envelope["intrinsics"]
        if intrinsics is None:
            intrinsics = Intrinsics(id=envelope["sow_key"], table=envelope["topic"])
        if sees_tags and envelope["tags"]:
            record = {**record, TAGS: list(envelope["tags"])}
        return condition.matches_about(record, intrinsics)

    return meets
