"""Whether the SDK of the Model Context Protocol is installed, which the extra `mcp` does."""

from importlib.util import find_spec

from sowline.errors import SowlineError
from sowline.version import installing

SDK = "mcp"


def require_sdk() -> None:
    """Raise `not supported` if the SDK is missing."""
    if find_spec(SDK) is None:
        raise SowlineError(
            "not supported",
            f"expected the package {SDK}, which serves agents: install it with {installing('mcp')}",
        )
