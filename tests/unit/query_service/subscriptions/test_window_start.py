"""Where a subscription to a window begins."""

import asyncio
import itertools
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from sowline.model.bookmark_range import BookmarkRange
from sowline.wire.options import Options
from sowline_query_service.subscriptions.window_start import WindowStart


async def test_a_log_that_takes_records_late_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes back for each of them, however many they are, and gives up its turn before."""
    late = sys.getrecursionlimit() + 1
    found, undone, freed = itertools.count(1), list[int](), list[int]()

    async def undo(self: WindowStart, window: Any, viewer: Any, positions: Any) -> None:
        undone.append(positions)

    async def begun_query(self: WindowStart) -> Any:
        return SimpleNamespace(positions={"orders": min(next(found), late)})

    monkeypatch.setattr(WindowStart, "_undo", undo)
    monkeypatch.setattr(WindowStart, "_begun_query", begun_query)
    topic: Any = SimpleNamespace(definition=SimpleNamespace(log="orders"))
    slot: Any = SimpleNamespace(free=lambda: freed.append(1))
    selection: Any = SimpleNamespace(options=Options())
    start = WindowStart(SimpleNamespace(), slot, topic, selection, BookmarkRange())  # type: ignore[arg-type]
    window: Any = SimpleNamespace(coming_back=asyncio.Lock())
    query = await start.go_back(window, SimpleNamespace(), 0)  # type: ignore[arg-type]
    assert query is not None
    assert (undone, len(freed)) == ([*range(late + 1)], late)
