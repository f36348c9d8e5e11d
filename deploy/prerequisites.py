"""Check for a Java before anything is installed: `sowline.runtime.java` run on its own, by a bare Python."""

import sys
import types
from pathlib import Path

# A package without its __init__, which may import what is not installed yet.
package = types.ModuleType("sowline")
package.__path__ = [str(Path(__file__).parent.parent / "sowline")]
sys.modules["sowline"] = package

from sowline.errors import SowlineError  # noqa: E402 - found by the path above
from sowline.runtime.java import find_java  # noqa: E402 - found by the path above

try:
    find_java()
except SowlineError as error:
    sys.exit(f"sowline: {error.message}")
