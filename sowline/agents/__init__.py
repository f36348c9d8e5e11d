"""The tools that agents call over the Model Context Protocol (MCP), for services and for `sowline mcp`."""
