"""The programs that `sowline` starts as processes of their own. It must not import them: they stand on top of it."""

import sys
from enum import StrEnum


class Program(StrEnum):
    """The module that `python -m` runs."""

    MATERIALIZER = "materializer"
    QUERY_SERVICE = "query_service"
    FANOUT = "fanout"
    PIPELINE = "ingest"
    LOCAL_KAFKA = "deploy.local"

    def command(self, *arguments: str) -> list[str]:
        """Return the command that runs it in this Python."""
        return [sys.executable, "-m", self.value, *arguments]
