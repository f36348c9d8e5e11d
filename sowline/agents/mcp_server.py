"""The MCP server: the tools and resources in the terms of the protocol's SDK. The only module that imports the SDK.

Each HTTP request gets its own server, with the rights of its user, which ends with the response. So there is no
session to keep, to limit or to steal.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import anyio
import structlog
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)
from starlette.types import Receive, Scope, Send

from sowline.agents.addresses import TEMPLATE, address_of, read_address
from sowline.agents.arguments import schema_of
from sowline.agents.catalog import INSTRUCTIONS, TOOLS, UNTRUSTED, WRITE_TOOLS
from sowline.agents.catalog import Tool as AgentTool
from sowline.agents.events import Event
from sowline.agents.tools import AgentTools
from sowline.errors import SowlineError
from sowline.serving.refusal import unforeseen
from sowline.version import __version__

LISTENED_MAX = 16
"""Addresses that one request may listen to; each is a subscription."""

NOTICE_SECONDS = 1.0
"""Seconds between two notices about one address."""

JSON = "application/json"
_ABOUT_CHANGES = (
    "The changes of a topic after the bookmark `after`, and the next bookmark; without it, only the current bookmark."
    f" {UNTRUSTED}"
)

_SCHEMAS = {tool.name: schema_of(tool.arguments) for tool in (*TOOLS, *WRITE_TOOLS)}

log = structlog.get_logger()

Context = ServerRequestContext[Any, Any]


async def serve_http(
    tools: AgentTools, scope: Scope, receive: Receive, send: Send, body_bytes_max: int
) -> None:
    """Answer one HTTP request."""
    manager = StreamableHTTPSessionManager(
        server_of(tools), stateless=True, max_request_body_size=body_bytes_max
    )
    async with manager.run():
        await manager.handle_request(scope, receive, send)


async def serve_stdio(tools: AgentTools) -> None:
    """Serve the process at the other end of standard input and output, until it closes them."""
    server = server_of(tools)
    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())


def server_of(tools: AgentTools) -> Server[Any]:
    """Return the server of one user's tools."""
    handlers = _Handlers(tools)
    server: Server[Any] = Server(
        "sowline",
        version=__version__,
        title="Sowline",
        instructions=INSTRUCTIONS,
        # Without it, the SDK lists the tools before each call, to check headers that none of them has.
        get_tool_input_schema=_SCHEMAS.get,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_resource_templates,
        on_read_resource=handlers.read_resource,
        on_subscriptions_listen=handlers.listen,
    )
    # The SDK's spans would have the parameters of an agent, and `sowline.runtime.tracing` makes all of ours.
    server.middleware.clear()
    return server


class _Handlers:
    """The requests of the protocol."""

    def __init__(self, tools: AgentTools) -> None:
        self._tools = tools

    async def list_tools(self, _: Context, asked: PaginatedRequestParams | None) -> ListToolsResult:
        """List the tools that the user may call."""
        return ListToolsResult(tools=[_described(tool) for tool in await self._tools.available()])

    async def call_tool(self, _: Context, asked: CallToolRequestParams) -> CallToolResult:
        """Answer with the JSON of a tool, or with its error as text, so that the agent can correct its call."""
        try:
            text, is_error = await self._tools.call(asked.name, asked.arguments or {}), False
        except Exception as error:
            refusal = _refusal(error)
            text, is_error = f"{refusal.reason}: {refusal.message}", True
        return CallToolResult(content=[TextContent(text=text)], is_error=is_error)

    async def list_resources(self, _: Context, asked: PaginatedRequestParams | None) -> ListResourcesResult:
        """List the changes of each topic that the user may read."""
        try:
            names = await self._tools.topic_names()
        except Exception as error:
            raise _protocol_error(error) from None
        return ListResourcesResult(
            resources=[
                Resource(
                    uri=address_of(name),
                    name=name,
                    title=f"Changes of {name}",
                    description=_ABOUT_CHANGES,
                    mime_type=JSON,
                )
                for name in names
            ]
        )

    async def list_resource_templates(
        self, _: Context, asked: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """List the one form that addresses have."""
        template = ResourceTemplate(
            uri_template=TEMPLATE,
            name="changes",
            title="Changes of a topic",
            description=_ABOUT_CHANGES,
            mime_type=JSON,
        )
        return ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(self, _: Context, asked: ReadResourceRequestParams) -> ReadResourceResult:
        """Answer with the changes that an address names."""
        try:
            text = await self._tools.changes(read_address(asked.uri))
        except Exception as error:
            raise _protocol_error(error) from None
        return ReadResourceResult(contents=[TextResourceContents(uri=asked.uri, mime_type=JSON, text=text)])

    async def listen(
        self, context: Context, asked: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Send a notice when an address has changes; it ends when a subscription does, or when the client leaves."""
        addresses = asked.notifications.resource_subscriptions or []
        bus = InMemorySubscriptionBus()
        handler = ListenHandler(bus)
        async with AsyncExitStack() as stack:
            try:
                # Each subscription begins before the acknowledgement, because a refusal must come instead of it.
                watched = await self._watch_all(stack, addresses)
            except Exception as error:
                raise _protocol_error(error) from None
            async with anyio.create_task_group() as tasks:
                for address, changes in watched.items():
                    tasks.start_soon(_publish_notices, bus, handler, address, changes)
                result = await handler(context, asked)
                tasks.cancel_scope.cancel()
        return result

    async def _watch_all(
        self, stack: AsyncExitStack, addresses: list[str]
    ) -> dict[str, AsyncIterator[Event]]:
        if len(addresses) > LISTENED_MAX:
            raise SowlineError(
                "bad request", f"expected at most {LISTENED_MAX} addresses to listen to, got {len(addresses)}"
            )
        return {
            address: await stack.enter_async_context(self._tools.watch(read_address(address)))
            for address in addresses
        }


def _described(tool: AgentTool) -> Tool:
    reads = tool in TOOLS
    hints = ToolAnnotations(
        read_only_hint=reads, destructive_hint=not reads, idempotent_hint=True, open_world_hint=True
    )
    return Tool(
        name=tool.name,
        title=tool.title,
        description=f"{tool.description} {UNTRUSTED}" if reads else tool.description,
        input_schema=_SCHEMAS[tool.name],
        annotations=hints,
    )


async def _publish_notices(
    bus: InMemorySubscriptionBus, handler: ListenHandler, address: str, changes: AsyncIterator[Event]
) -> None:
    """Publish a notice when an address has changed, at most one each `NOTICE_SECONDS`, until its changes end."""
    changed = asyncio.Event()

    async def read_changes() -> None:
        # Read on between two notices: the service would end the subscription of a client that does not read.
        # The end of the stream tells the client to read again. The reason is in the answer to that.
        with contextlib.suppress(SowlineError):
            async for _ in changes:
                changed.set()
        handler.close()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read_changes)
        while True:
            await changed.wait()
            changed.clear()
            await bus.publish(ResourceUpdated(uri=address))
            await asyncio.sleep(NOTICE_SECONDS)


def _refusal(error: Exception) -> SowlineError:
    if isinstance(error, SowlineError):
        return error
    log.error("tool failed", exc_info=error)
    return unforeseen("the tool failed", error)


def _protocol_error(error: Exception) -> MCPError:
    refusal = _refusal(error)
    code = INTERNAL_ERROR if refusal.reason == "internal" else INVALID_PARAMS
    return MCPError(code, f"{refusal.reason}: {refusal.message}", {"reason": refusal.reason})
