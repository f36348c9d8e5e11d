"""A page or groups as they were at a bookmark or a time, for a client that comes back. Pure."""

from sowline.model.bookmark import parse_bookmark
from sowline.subscriptions.engine.shown import ShownRecord
from sowline.wire.server_message import ms_of
from sowline_gateway.query.keyed_records import read_record


def past_record(record: bytes) -> tuple[bytes, ShownRecord]:
    """Return the SOW key of a record or group in the answer to a query, and what is known about it."""
    found = read_record(record)
    key, body = found.sow_key.encode(), bytes(found.data)
    when = ms_of(found.timestamp) if found.timestamp else 0
    if not found.updated_at:
        return key, ShownRecord(body, when)
    ((partition, position),) = next(iter(parse_bookmark(found.updated_at).values())).items()
    return key, ShownRecord(body, when, partition, position)
