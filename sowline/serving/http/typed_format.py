"""Records over HTTP in the message type of their topic, for clients that ask for it by the header `Accept`."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from starlette.requests import Request as HttpRequest

from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.serving.authorization.entitlements import Entitlements
from sowline.serving.http.requests import accepts
from sowline.serving.typed_records.checks import check_typed
from sowline.serving.typed_records.messages import RECORDS_AT_ONCE, in_message_type, record_data
from sowline.wire.media_types import NATIVE
from sowline.wire.options import parse_options
from sowline.wire.typed_frame import prefixed_length


def wants_typed(request: HttpRequest) -> bool:
    """Whether a client asks for records in the message type of their topic."""
    return accepts(request, NATIVE)


def typed_fields(request: HttpRequest, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a query, with the format that the client asks for; raise `invalid options`."""
    options = fields.get("options", "")
    if isinstance(options, str) and parse_options(options).is_typed:
        raise SowlineError(
            "invalid options", f"expected the header Accept: {NATIVE} over HTTP, got the option format=native"
        )
    if not wants_typed(request):
        return fields
    return {**fields, "options": f"{options},format=native" if options else "format=native"}


async def typed_records(
    portions: AsyncIterator[tuple[str, Sequence[bytes], object]], definitions: Mapping[str, TopicDefinition]
) -> AsyncIterator[bytes]:
    """Yield the records of a query, each with its length before it; raise `bad message` if one can't be written.

    Each portion has the name of a topic, and records as JSON.
    """
    async for topic, records, _ in portions:
        for start in range(0, len(records), RECORDS_AT_ONCE):
            some = records[start : start + RECORDS_AT_ONCE]
            messages = [in_message_type(definitions[topic], record_data(record)) for record in some]
            yield b"".join(part for message in messages for part in (prefixed_length(message), message))
            # Records are encoded one by one: other clients must not wait for a whole portion.
            await asyncio.sleep(0)


def typed_record(definition: TopicDefinition, record: bytes, read: Entitlements) -> bytes:
    """Return a record in the message type of its topic; raise if that can't be, or not for this user."""
    if definition.reader is not None:
        check_typed(definition, read)
    return in_message_type(definition, record)
