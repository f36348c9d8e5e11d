"""Reads one record by its key; for a document also its intrinsics, even if it was deleted or never written."""

from typing import Any

import numpy as np
import orjson

from sowline.config.topic_definition import TopicDefinition
from sowline.errors import SowlineError
from sowline.language.emodb import UNDEFINED
from sowline.language.emodb.template import Fields
from sowline.language.emodb.writes import DocumentMetadata, document_of
from sowline.language.filter import ALL
from sowline.model.body import write_body
from sowline.model.select import Select
from sowline.serving.authorization.entitlements import Entitlement
from sowline.serving.refusal import no_sow
from sowline_query_service.query.selection import Selection
from sowline_query_service.query.topic_slice import TopicSlice
from sowline_query_service.topics.topic_state import TopicState


def read_record(topic: TopicState, key: str, entitlement: Entitlement) -> bytes:
    """Return the record with this key text as a JSON object, a document with its intrinsics.

    Raise `no sow`, or `no record` if a topic without documents has no such record, or the user may not see it.
    """
    definition = topic.definition
    if not definition.has_sow:
        raise no_sow(topic.definition.name)
    wanted = definition.key_rule.sow_key(key)
    topic_slice = TopicSlice.of(topic, Selection(sow_keys=(wanted,)))
    captured = topic_slice.captured
    topic_slice.note_reading(np.arange(len(captured)))
    body = captured.bodies[0] if len(captured) else None
    is_seen = entitlement.filter == ALL or (
        body is not None and entitlement.filter.matches(orjson.loads(body))
    )
    select = entitlement.select
    if definition.documents:
        # The version alone would show that someone has written a document that the user may not see
        # (test_a_document_that_may_not_be_seen_was_never_written).
        known = topic.rows.known(wanted) if is_seen else None
        return _as_document(definition, key, body if is_seen else None, known, topic.template(key), select)
    # One answer for both: a user who tries keys does not learn which hidden records exist (test_one_record).
    if body is None or not is_seen:
        raise SowlineError("no record", f"expected the key of a record of {definition.name}, got {key!r}")
    return body if select is None else select.apply(body)


def _as_document(
    definition: TopicDefinition,
    key: str,
    body: bytes | None,
    known: DocumentMetadata | None,
    template: Fields,
    select: Select | None,
) -> bytes:
    def fields(body: bytes) -> Any:
        return orjson.loads(body if select is None else select.apply(body))

    content: Any = UNDEFINED if body is None else fields(body)
    document = document_of(definition.name, key, content, None if known is None else known.writes)
    return write_body(document.read(fields(orjson.dumps(template))))
