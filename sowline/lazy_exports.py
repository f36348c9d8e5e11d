"""What `sowline` exports, imported at first use: services need no client."""

from importlib import import_module

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
    "widget": "sowline.client.notebook",
}
"""Where each name is defined."""


def __getattr__(name: str) -> object:
    """Return what `sowline` has under a name; Python calls this for `sowline.NAME`."""
    if name not in _MODULES:
        raise AttributeError(f"module 'sowline' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
