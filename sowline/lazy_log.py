"""The log of modules that clients import too. structlog takes a quarter of their import, so it comes with a line."""

from typing import Any


class LazyLog:
    """What `structlog.get_logger()` returns, once something is logged."""

    def __getattr__(self, name: str) -> Any:
        import structlog

        return getattr(structlog.get_logger(), name)


log = LazyLog()
