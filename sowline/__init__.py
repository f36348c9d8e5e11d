"""Sowline keeps the State of the World of Kafka topics: the code that every service and client shares.

The names below are imported at first use, because services need no client (`lazy_exports`).
"""

from typing import TYPE_CHECKING

from sowline.version import __version__

if TYPE_CHECKING:
    from sowline.client.async_client import AsyncClient
    from sowline.client.client import Client
    from sowline.client.local_view import AsyncLocalView, LocalView
    from sowline.client.notebook import widget
    from sowline.client.publisher import Publisher
    from sowline.client.write_options import DeliveryReport
    from sowline.errors import SowlineError
    from sowline.subscriptions.ask import Ask
    from sowline.wire.client_message import Message

# To a type checker, a module with this function has every name, also a misspelled one.
if not TYPE_CHECKING:
    from sowline.lazy_exports import __getattr__ as __getattr__

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
    "widget",
]
