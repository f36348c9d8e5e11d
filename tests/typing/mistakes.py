"""Mistakes that a type checker shows: mypy and pyright refuse an ignored error that is none."""

# pyright: reportUnnecessaryTypeIgnoreComment=true
from datetime import datetime

import sowline
from sowline import AsyncClient, Client

Name = sowline.Consumer  # type: ignore[attr-defined]


def calls(client: Client, end: datetime) -> None:
    """Arguments that don't exist, or have other types."""
    client.sow("orders", where="/qty > 100")  # type: ignore[call-arg]
    client.sow("orders", top_n="10")  # type: ignore[arg-type]
    client.publish("orders", 1)  # type: ignore[arg-type]
    client.publish("orders", {"id": 1}, fields=["/qty"])  # type: ignore[call-arg]
    client.subscribe("orders", up_to=end)


async def forgotten(client: AsyncClient) -> None:
    """A coroutine that nothing awaits has no result."""
    print(client.record("orders", 1)["id"])  # type: ignore[index]
