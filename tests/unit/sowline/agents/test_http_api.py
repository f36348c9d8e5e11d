"""The endpoint for agents where the SDK is missing."""

import httpx2
import pytest
from starlette.applications import Starlette

from sowline.agents import sdk
from sowline.agents.http_api import McpApi
from sowline.config.settings import Settings


async def test_a_service_without_the_sdk_has_a_clear_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It serves all others, and tells what to install."""
    monkeypatch.setattr(sdk, "SDK", "no_such_package")
    app = Starlette(routes=McpApi(Settings()).routes)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app)) as client:
        answer = await client.post("http://here/mcp", json={})
    assert answer.status_code == 501
    assert answer.json()["reason"] == "not supported"
    assert "pip install 'sowline[mcp]'" in answer.json()["message"]
