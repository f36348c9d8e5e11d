"""Reads with `format=native` at a gateway: nodes send JSON, and it writes that in the message types of topics."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import msgspec

from sowline.config.topic_definition import TopicDefinition
from sowline.serving.authorization.entitlements import Rights
from sowline.serving.typed_records.checks import check_typed_read
from sowline.wire.request import Read

T = TypeVar("T", bound=Read)


def read_in_json(
    request: T, definitions: Mapping[str, TopicDefinition], topics: Sequence[str], rights: Rights
) -> T:
    """Return a read of these topics in JSON; raise if they can't be read in their message types."""
    check_typed_read(request, (definitions[name] for name in topics), rights.read)
    return msgspec.structs.replace(request, options=replace(request.options, format="json"))
