"""Sowline keeps the State of the World of Kafka topics: what every service and client shares."""

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
