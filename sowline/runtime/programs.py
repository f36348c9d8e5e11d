"""The programs that `sowline` starts as separate processes. It must not import them, because they import it."""

import sys
from enum import StrEnum


class Program(StrEnum):
    """A program, by the module that `python -m` runs."""

    MATERIALIZER = "materializer"
    QUERY_SERVICE = "query_service"
    GATEWAY = "gateway"
    FANOUT = "fanout"
    VIEWS = "views"
    PIPELINE = "ingest"
    LOCAL_KAFKA = "deploy.local"

    def command(self, *arguments: str) -> list[str]:
        """Return the command that runs the program with this Python interpreter."""
        return [sys.executable, "-m", self.value, *arguments]
