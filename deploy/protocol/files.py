"""The files of the protocol description, and what each of them should contain."""

import json
from pathlib import Path

from deploy.protocol.frames import frames_schema
from deploy.protocol.typescript import typescript

ROOT = Path(__file__).parents[2]
PROTOCOL = ROOT / "docs" / "protocol"
FRAMES = PROTOCOL / "frames.schema.json"
TYPESCRIPT = ROOT / "clients" / "typescript" / "src" / "frames.ts"


def generated() -> dict[Path, str]:
    """Return the content of each file, as it should be now."""
    schema = frames_schema()
    return {
        FRAMES: json.dumps(schema, indent=2, ensure_ascii=False) + "\n",
        TYPESCRIPT: typescript(schema),
    }
