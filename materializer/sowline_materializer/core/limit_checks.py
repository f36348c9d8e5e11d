"""Refuses what exceeds a limit of a partition."""

from sowline.commands.command import LogRecord
from sowline.errors import SowlineError
from sowline.model.limits import Limits
from sowline.model.log_time import LOG_APPEND_TIME, TIME_MAX, is_time
from sowline_materializer.core.batch_state import BatchState


def require_time(record: LogRecord) -> None:
    """Raise `bad time` if the record has a time that no producer and no broker can mean."""
    if is_time(record.time):
        return
    if record.time > TIME_MAX:
        likely = (
            "the producer sends microseconds or nanoseconds as milliseconds"
            if record.time_type != LOG_APPEND_TIME
            else "the clock of the broker is wrong"
        )
    else:
        likely = "the producer sends no time, or a wrong one"
    raise SowlineError(
        "bad time",
        f"expected a time from 1970 to the year 9999, in ms since 1970, got {record.time}: probably {likely}",
    )


def checked_size(limits: Limits, body: bytes) -> bytes:
    """Return a body that is no larger than the topic allows; raises `too large`."""
    check_size(limits, len(body))
    return body


def check_size(limits: Limits, size_bytes: int) -> None:
    """Raise `too large` if the topic allows no record of this size."""
    if size_bytes > limits.record_bytes_max:
        raise SowlineError(
            "too large", f"expected a record of at most {limits.record_bytes_max} bytes, got {size_bytes}"
        )


def require_capacity(state: BatchState) -> None:
    """Raise `too many records` if the partition takes no new record."""
    share = state.limits.share(state.definition.partitions)
    assert state.live_records >= 0, "a count of live records is never negative"
    if share is not None and state.live_records >= share:
        raise SowlineError(
            "too many records",
            f"expected an update, or less than {share} records in partition {state.partition} "
            f"({state.limits.records_max} in all), got a new record where there are {state.live_records}",
        )
