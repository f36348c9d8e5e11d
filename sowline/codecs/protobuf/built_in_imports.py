"""The imports that registries have without listing them as references: Confluent's own, and Google's common types."""

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

# The package has no other module to import. If it is missing, this raises the error that names the extra.
_GOOGLE_TYPES: Final = files("google.type")
_OURS: Final = Path(__file__).with_name("imports")


@cache
def built_in_imports() -> dict[str, str]:
    """Return the text of each `.proto` file by its import name, except the files that the compiler has."""
    ours = {str(path.relative_to(_OURS)): path.read_text() for path in _OURS.rglob("*.proto")}
    google = {one.name: one.read_text() for one in _GOOGLE_TYPES.iterdir() if one.name.endswith(".proto")}
    return ours | {f"google/type/{name}": text for name, text in google.items()}
