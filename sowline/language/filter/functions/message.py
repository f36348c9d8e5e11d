"""The message functions: each returns one member of a record's `Metadata`.

They compute nothing. A filter that uses them is rewritten to a filter on an envelope, in which each fact is a field
(see `sowline.language.filter.envelope`).
"""

from sowline.language.filter.functions.registry import Function
from sowline.model.path import Scalar


def _unknown() -> Scalar:
    """Return NULL: without an envelope, no facts are known."""
    return None


def _fact(name: str, member: str, *, deterministic: bool = True) -> Function:
    return Function(name, (), _unknown, fact=member, deterministic=deterministic)


FUNCTIONS = (
    _fact("MESSAGE_SIZE", "size"),
    _fact("CORRELATION_ID", "correlation"),
    _fact("LAST_UPDATED", "updated"),
    _fact("LAST_READ", "last_read", deterministic=False),
    _fact("TOPIC_NAME", "topic"),
    _fact("BOOKMARK", "bookmark"),
    _fact("SOW_KEY", "sow_key"),
    _fact("SOW_KEY_HASH", "sow_key_hash"),
    _fact("INSTANCE_NAME", "instance"),
    _fact("GROUP_NAME", "group"),
)
