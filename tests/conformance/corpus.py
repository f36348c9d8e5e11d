"""Where the corpus is: cases with the answers of the system whose delta language Sowline speaks."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NEXT_TO_THE_CLONE = Path(__file__).parents[3] / "shared" / "conformance"


def corpus() -> Path | None:
    """Return the corpus's directory: `SOWLINE_CONFORMANCE`, else beside the clone, else None."""
    directory = Path(os.environ.get("SOWLINE_CONFORMANCE") or NEXT_TO_THE_CLONE)
    return directory if directory.is_dir() else None


def cases(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the cases of one file of the corpus."""
    with file.open(encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines)
