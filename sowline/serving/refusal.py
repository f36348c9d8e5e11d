"""The errors that requests of all kinds are refused with, and the HTTP status of each reason."""

from sowline.errors import SowlineError

STATUSES = {
    "logon required": 401,
    "auth failure": 401,
    "origin refused": 403,
    "not entitled": 403,
    "invalid topic": 404,
    "no record": 404,
    "no client": 404,
    "too large": 413,
    "gateway required": 421,
    "busy": 429,
    "not ready": 503,
    "behind": 503,
    "stale": 503,
    "not written": 503,
    "shard unavailable": 503,
    "auth unavailable": 503,
}
"""The HTTP status of each reason; that of all others is 400."""


def unforeseen(what: str, error: Exception) -> SowlineError:
    """Return the error that a client gets for a defect, without the text, which may quote data it may not see."""
    return SowlineError(
        "internal", f"{what}: {type(error).__name__}; the log of the query service has the details"
    )


def left_topic(topic: str) -> SowlineError:
    """Return the error for what reads a topic that is no longer defined."""
    return SowlineError("invalid topic", f"expected a topic in topics.yaml, got {topic}, which has left it")


def no_sow(topic: str) -> SowlineError:
    """Return the error for a request for the records of a topic that keeps none."""
    return SowlineError("no sow", f"expected a topic with a SOW, got {topic}, which keeps no records")
