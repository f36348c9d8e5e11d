"""The programs that `sowline` starts as separate processes. It must not import them, because they import it."""

import sys
from enum import StrEnum
from importlib.util import find_spec

from sowline.errors import SowlineError
from sowline.version import installing

SERVER = ("cryptography", "jwt", "numpy", "rocksdict", "starlette", "uvicorn")
"""Modules that only services import: the extra `server` installs them."""


class Program(StrEnum):
    """A program, by the module that `python -m` runs."""

    MATERIALIZER = "sowline_materializer"
    QUERY_SERVICE = "sowline_query_service"
    GATEWAY = "sowline_gateway"
    FANOUT = "sowline_fanout"
    VIEWS = "sowline_views"
    PIPELINE = "sowline_ingest"
    SOWLINE = "sowline"

    def command(self, *arguments: str) -> list[str]:
        """Return the command that runs the program with this Python interpreter.

        With `-P`, a `views.py` or `gateway/__init__.py` in the working directory is not imported in place of what
        services import (test_a_directory_with_names_of_ours).
        """
        return [sys.executable, "-P", "-m", self.value, *arguments]


def require_server() -> None:
    """Raise `no server` if packages are missing that services need."""
    if missing := [module for module in SERVER if find_spec(module) is None]:
        raise SowlineError(
            "no server",
            f"expected the packages of the services, but {', '.join(missing)} can't be imported: install them with"
            f" {installing('server')}",
        )


def end_without_server() -> None:
    """End the process with a sentence and exit code 2, as for wrong usage, if `require_server` raises."""
    try:
        require_server()
    except SowlineError as error:
        print(f"{error.reason}: {error.message}", file=sys.stderr)
        sys.exit(2)
