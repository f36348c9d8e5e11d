"""The files of the protocol description, and what each of them should contain."""

import json
from pathlib import Path

import yaml

from deploy.protocol.asyncapi import asyncapi
from deploy.protocol.frames import frames_schema
from deploy.protocol.openapi import openapi
from deploy.protocol.schemas import Schema
from deploy.protocol.tables import with_tables
from deploy.protocol.typescript import typescript

ROOT = Path(__file__).parents[2]
PROTOCOL = ROOT / "docs" / "protocol"
PAGE = ROOT / "docs" / "api.md"
ASYNCAPI = PROTOCOL / "asyncapi.yaml"
OPENAPI = PROTOCOL / "openapi.yaml"
FRAMES = PROTOCOL / "frames.schema.json"
TYPESCRIPT = ROOT / "clients" / "typescript" / "src" / "frames.ts"


def generated() -> dict[Path, str]:
    """Return the content of each file, as it should be now."""
    schema = frames_schema()
    return {
        FRAMES: json.dumps(schema, indent=2, ensure_ascii=False) + "\n",
        ASYNCAPI: _yaml(asyncapi(schema)),
        OPENAPI: _yaml(openapi()),
        TYPESCRIPT: typescript(schema),
        PAGE: with_tables(PAGE.read_text(encoding="utf-8"), schema),
    }


def _yaml(description: Schema) -> str:
    return yaml.dump(description, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Dumper(yaml.SafeDumper):
    """Writes a part that occurs twice twice: tools that read descriptions do not expect YAML's anchors."""

    def ignore_aliases(self, data: object) -> bool:
        """Use no anchors."""
        return True
