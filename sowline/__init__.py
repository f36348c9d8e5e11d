"""Sowline keeps the State of the World of Kafka topics: the code that every service and client shares.

The names below are imported at first use, because services need no client.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from sowline.version import __version__

if TYPE_CHECKING:
    from sowline.client.async_client import AsyncClient
    from sowline.client.client import Client
    from sowline.client.local_view import AsyncLocalView, LocalView
    from sowline.client.publisher import Publisher
    from sowline.client.write_options import DeliveryReport
    from sowline.errors import SowlineError
    from sowline.subscriptions.ask import Ask
    from sowline.wire.client_message import Message

__all__ = [
    "Ask",
    "AsyncClient",
    "AsyncLocalView",
    "Client",
    "DeliveryReport",
    "LocalView",
    "Message",
    "Publisher",
    "SowlineError",
    "__version__",
]

_MODULES = {
    "Ask": "sowline.subscriptions.ask",
    "AsyncClient": "sowline.client.async_client",
    "AsyncLocalView": "sowline.client.local_view",
    "Client": "sowline.client.client",
    "DeliveryReport": "sowline.client.write_options",
    "LocalView": "sowline.client.local_view",
    "Message": "sowline.wire.client_message",
    "Publisher": "sowline.client.publisher",
    "SowlineError": "sowline.errors",
}


# To a type checker, a module with this function has every name, also a misspelled one.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module 'sowline' has no attribute {name!r}")
        return getattr(import_module(_MODULES[name]), name)
