"""What becomes of a node that does not announce itself."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from sowline.errors import SowlineError
from sowline_gateway.nodes import announcements as module
from sowline_gateway.nodes.announcements import Announcements
from sowline_gateway.nodes.connections import NodeLost
from tests.waiting import loop_turns

URL = "http://node:8080"


@pytest.mark.parametrize(
    ("answer", "is_silent"),
    [
        (NodeLost("it does not answer"), True),
        (SowlineError("not entitled", "the gateway may not ask"), False),
        (b"<html>", False),
        (b'{"topics": [{}]}', False),
    ],
)
async def test_a_node_that_refuses_is_not_silent(
    monkeypatch: pytest.MonkeyPatch, answer: Exception | bytes, is_silent: bool
) -> None:
    """The connections of a node are ended only if nothing comes: one that answers is not frozen."""
    monkeypatch.setattr(module, "ASK_SECONDS", 0.0)
    monkeypatch.setattr(module, "SILENCE_SECONDS_MAX", -1.0)
    asked = []

    async def ask(url: str, seconds_max: float) -> bytes:
        asked.append(url)
        if isinstance(answer, Exception):
            raise answer
        return answer

    http: Any = SimpleNamespace(ask_announcement=ask)
    announcements = Announcements([URL], http)
    silent: list[str] = []
    announcements.on_silence = silent.append
    following = asyncio.create_task(announcements.follow())
    await loop_turns(20)
    following.cancel()
    assert len(asked) > 1
    assert not announcements.nodes
    assert bool(silent) is is_silent
