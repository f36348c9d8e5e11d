"""The programs that `sowline` starts as separate processes. It must not import them, because they import it."""

import sys
from enum import StrEnum


class Program(StrEnum):
    """A program, by the module that `python -m` runs."""

    MATERIALIZER = "sowline_materializer"
    QUERY_SERVICE = "sowline_query_service"
    GATEWAY = "sowline_gateway"
    FANOUT = "sowline_fanout"
    VIEWS = "sowline_views"
    PIPELINE = "sowline_ingest"
    LOCAL_KAFKA = "deploy.local"

    def command(self, *arguments: str) -> list[str]:
        """Return the command that runs the program with this Python interpreter."""
        return [sys.executable, "-m", self.value, *arguments]
