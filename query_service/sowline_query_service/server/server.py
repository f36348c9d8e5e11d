"""The server of a query service: its commands and its HTTP API, in the web application that all services share."""

from collections.abc import Callable
from functools import partial
from typing import Any

from sowline.agents.http_api import McpApi
from sowline.config.settings import Settings
from sowline.config.shard import Shard
from sowline.runtime.connections import Connections
from sowline.runtime.health import ServiceHealth, no_details, nothing
from sowline.serving.app import Server
from sowline_query_service.context import ServiceContext
from sowline_query_service.server.commands import ServiceCommands
from sowline_query_service.server.http_api import HttpApi


def server_of(
    settings: Settings,
    context: ServiceContext,
    service: ServiceHealth,
    note: Callable[[], str | None] = nothing,
    connections: Connections | None = None,
    details: Callable[[], dict[str, Any]] = no_details,
) -> Server:
    """Return the server over one state."""
    return Server(
        settings,
        partial(ServiceCommands, context),
        lambda rates, backlogs: [
            *HttpApi(settings, context, rates, backlogs).routes,
            *McpApi(settings).routes,
        ],
        service,
        note,
        connections,
        details,
        _gateway_required(settings.shard),
    )


def _gateway_required(shard: Shard) -> str:
    """Return why only gateways may use the service; empty if it holds all partitions."""
    if shard.is_whole:
        return ""
    return (
        f"expected a gateway: this query service holds only shard {shard} of the topics; connect to a gateway"
    )
