"""Reads with `format=native` at a gateway: nodes send JSON, and it writes that in the message types of topics."""

from collections.abc import Mapping, Sequence

import msgspec

from sowline.config.topic_definition import TopicDefinition
from sowline.serving.authorization.entitlements import Rights
from sowline.serving.native_records.checks import check_native
from sowline.wire.options import in_json
from sowline.wire.request import Request


def read_in_json(
    request: Request, definitions: Mapping[str, TopicDefinition], topics: Sequence[str], rights: Rights
) -> Request:
    """Return a read of these topics as nodes get it; raise if they can't be read in their message types."""
    if not request.parsed_options.is_native:
        return request
    check_native(request, (definitions[name] for name in topics), rights.read)
    return msgspec.structs.replace(request, options=in_json(request.options))
