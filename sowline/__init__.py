"""Sowline keeps the State of the World of Kafka topics: what every service and client shares.

The names below are imported when they are first asked for: services need no client.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sowline.async_client import AsyncClient
    from sowline.client import Client
    from sowline.errors import SowlineError
    from sowline.local_view import AsyncLocalView, LocalView
    from sowline.message import Message

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "AsyncLocalView",
    "Client",
    "LocalView",
    "Message",
    "SowlineError",
    "__version__",
]

_HOMES = {
    "AsyncClient": "sowline.async_client",
    "AsyncLocalView": "sowline.local_view",
    "Client": "sowline.client",
    "LocalView": "sowline.local_view",
    "Message": "sowline.message",
    "SowlineError": "sowline.errors",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'sowline' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
