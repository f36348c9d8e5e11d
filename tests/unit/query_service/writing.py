"""Writes of a query service in tests: checked against its records, and never written."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from sowline.serving.writes.pending_commands import WriteService
from sowline.serving.writes.requests import Definitions, RequestedCommand
from sowline_query_service.topics.state import ServedTopics
from sowline_query_service.writes.destination import ReplicaDestination


def definitions(state: ServedTopics) -> Definitions:
    """Return the definitions of the topics, by name."""
    return {name: topic.definition for name, topic in state.topics.items()}


def checked(state: ServedTopics, commands: Sequence[RequestedCommand]) -> Sequence[RequestedCommand]:
    """Return the commands; raise if the records that they name forbid one."""
    service = WriteService(ReplicaDestination(state), cast("Any", None))
    asyncio.run(service.check(commands))
    return commands
