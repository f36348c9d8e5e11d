"""What local views return."""

from collections.abc import ItemsView, KeysView, ValuesView
from typing import Any, assert_type

from sowline import AsyncLocalView, LocalView, SowlineError, widget
from sowline.client.grid_widget import GridWidget
from sowline.client.record_view import Saved
from sowline.client.records import RowSlice


def mapping(view: LocalView) -> None:
    """A view is a mapping of SOW keys to records."""
    assert_type(view["1"], dict[str, Any])
    assert_type(view.get("1"), dict[str, Any] | None)
    assert_type(view.keys(), KeysView[str])
    assert_type(view.values(), ValuesView[dict[str, Any]])
    assert_type(view.items(), ItemsView[str, dict[str, Any]])
    assert_type(view.bookmark, str)
    assert_type(view.error, SowlineError | None)
    assert_type(view.saved(), Saved)
    assert_type(view.saved().records, dict[str, bytes])
    assert_type(view.rows(0, 10), RowSlice)
    assert_type(widget(view), GridWidget)
    assert_type(view.verify(timeout=1), bool)
    view.wait_for(lambda it: assert_type(it, LocalView))
    with view as same:
        assert_type(same, LocalView)


async def mapping_with_asyncio(view: AsyncLocalView) -> None:
    """The same with asyncio."""
    assert_type(view["1"], dict[str, Any])
    assert_type(view.keys(), KeysView[str])
    assert_type(view.values(), ValuesView[dict[str, Any]])
    assert_type(view.items(), ItemsView[str, dict[str, Any]])
    assert_type(view.bookmark, str)
    assert_type(view.error, SowlineError | None)
    assert_type(view.saved(), Saved)
    assert_type(view.rows(0, 10), RowSlice)
    assert_type(await view.verify(timeout=1), bool)
    await view.wait_for(lambda it: assert_type(it, AsyncLocalView))
    async with view as same:
        assert_type(same, AsyncLocalView)
