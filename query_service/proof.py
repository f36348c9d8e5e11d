"""Proving a view: how many records a subscriber should hold at a place, and the digest of their SOW keys."""

from query_service.outbox import Outbox
from query_service.query import Query
from sowline.wire import Request, message


async def proof_of(query: Query) -> tuple[int, int]:
    """Return how many records a query finds that has begun, and their hash; raises `query too long`."""
    records = hash = 0
    async for part, places in query.matches():
        records += len(places)
        hash ^= part.captured.hash(places)
    return records, hash


def put_proof(outbox: Outbox, request: Request, bookmark: str, records: int, hash: int) -> None:
    """Answer the request of a subscription with what its client should hold at this place."""
    outbox.put(
        message(
            "progress",
            command_id=request.command_id,
            sids=[request.sub_id],
            bookmark=bookmark,
            records=records,
            hash=f"{hash:016x}",
        )
    )
