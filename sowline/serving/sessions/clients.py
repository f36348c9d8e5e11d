"""The connected clients for `GET /v1/clients`: each with its requests, and how far it is behind."""

import asyncio
import itertools
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sowline.errors import SowlineError
from sowline.serving.sessions.session import Session
from sowline.serving.sessions.status import SubscriptionStatus
from sowline.wire.request import Read

EndSubscriptions = Callable[[Collection[str], SowlineError], None]
"""Ends the subscriptions of all clients that read one of these topics, with an error."""

CLIENTS_LISTED_MAX = 500
SUBSCRIPTIONS_LISTED_MAX = 50
"""The number of subscriptions listed per client, and of queries."""

TEXT_CHARS_MAX = 500
"""The number of characters listed of a filter or of options."""


@dataclass(slots=True)
class Connected:
    """One connection."""

    number: int
    address: str
    agent: str
    session: Session
    close: Callable[[], None]
    since: float = field(default_factory=time.time)
    """When it connected, in seconds since 1970."""


class Clients:
    """The connections of a service, the oldest first."""

    def __init__(self) -> None:
        self._connected: dict[int, Connected] = {}
        self._numbers = itertools.count(1)

    def add(self, address: str, agent: str, session: Session, close: Callable[[], None]) -> int:
        """List a client, and return its number.

        `agent` is the name that its program sends; `close` ends its connection.
        """
        number = next(self._numbers)
        self._connected[number] = Connected(number, address, agent[:TEXT_CHARS_MAX], session, close)
        return number

    def remove(self, number: int) -> None:
        """Remove a client from the list."""
        self._connected.pop(number, None)

    def end_subscriptions_to(self, topics: Collection[str], error: SowlineError) -> None:
        """End the subscriptions of all clients that read one of these topics, with an error."""
        for client in list(self._connected.values()):
            client.session.commands.end_subscriptions_to(topics, error)

    def disconnect(self, number: int) -> bool:
        """Close the connection of a client by its number; return whether it was connected."""
        client = self._connected.get(number)
        if client is not None:
            client.close()
        return client is not None

    async def list_all(self) -> dict[str, Any]:
        """Return the number of clients, and the details of the oldest; other tasks run in between."""
        clients = []
        # A copy: clients connect and leave between the steps (test_clients_leave_while_others_are_listed).
        for one in list(itertools.islice(self._connected.values(), CLIENTS_LISTED_MAX)):
            clients.append(_describe(one))
            await asyncio.sleep(0)
        return {"connected": len(self._connected), "clients": clients}


def _describe(one: Connected) -> dict[str, Any]:
    session = one.session
    statuses = itertools.islice(session.commands.subscription_statuses(), SUBSCRIPTIONS_LISTED_MAX)
    queries = itertools.islice(session.commands.queries(), SUBSCRIPTIONS_LISTED_MAX)
    return {
        "id": one.number,
        "user": session.user,
        "address": one.address,
        "agent": one.agent,
        "since": datetime.fromtimestamp(one.since, UTC).isoformat(timespec="milliseconds"),
        "sent": session.outbox.sent,
        "unsent_bytes": session.outbox.unsent_bytes,
        "unsent_bytes_max": session.outbox.bytes_max,
        "subscriptions_count": session.commands.subscriptions_count,
        "subscriptions": [_subscription(status) for status in statuses],
        "queries_count": session.commands.queries_count,
        "queries": [
            {
                "query_id": request.id_of_query,
                "command": request.command,
                "topic": request.topic,
                "filter": _short(request.filter if isinstance(request, Read) else ""),
            }
            for request in queries
        ],
    }


def _subscription(status: SubscriptionStatus) -> dict[str, Any]:
    request = status.request
    return {
        "sub_id": request.id_of_subscription,
        "command": request.command,
        "topic": request.topic,
        "filter": _short(request.filter),
        "condition": _short(request.condition),
        "options": _short(request.options_text),
        "state": status.state,
        "behind_positions": status.behind_positions,
        "behind_seconds": round(status.behind_seconds, 3),
    }


def _short(text: str) -> str:
    return text if len(text) <= TEXT_CHARS_MAX else text[: TEXT_CHARS_MAX - 1] + "…"
