"""`sowline mcp`: serves the tools for agents over standard input and output."""

import asyncio
from typing import Any

from sowline.cli.connection import through_connection
from sowline.cli.help import cli_command
from sowline.config.credentials import Credentials


@cli_command(examples=("sowline mcp --url http://127.0.0.1:8080",))
@through_connection
def mcp(connection: dict[str, Any]) -> None:
    """Serve agents over standard input and output, with the Model Context Protocol (MCP).

    An agent starts this command itself. It reads with the rights of the token, and writes only with `agent_writes`.
    """
    from sowline.agents.sdk import require_sdk

    require_sdk()
    asyncio.run(_serve(**connection))


async def _serve(url: str, **credentials: Any) -> None:
    from sowline.agents.mcp_server import serve_stdio
    from sowline.agents.tools import AgentTools
    from sowline.client.http_api import HttpClient

    held = Credentials(**credentials)
    url = url.rstrip("/")
    http = HttpClient(url, held, lambda: held.tls() if url.startswith("https://") else None)
    try:
        await serve_stdio(AgentTools(http))
    finally:
        await http.close()
