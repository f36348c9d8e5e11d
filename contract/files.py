"""The files that are made from the types and lists here, and what each of them should contain."""

import json
from pathlib import Path

import yaml

from contract.asyncapi import asyncapi
from contract.chart_schema import chart_schema
from contract.editor_schemas import access_schema, pipeline_schema, topics_schema
from contract.frames import frames_schema
from contract.openapi import openapi
from contract.reasons_page import reasons_page
from contract.schemas import Schema
from contract.tables import with_tables
from contract.typescript import typescript

ROOT = Path(__file__).parents[1]
PROTOCOL = ROOT / "docs" / "protocol"
PAGE = ROOT / "docs" / "api.md"
ASYNCAPI = PROTOCOL / "asyncapi.yaml"
OPENAPI = PROTOCOL / "openapi.yaml"
FRAMES = PROTOCOL / "frames.schema.json"
TYPESCRIPT = ROOT / "clients" / "typescript" / "src" / "frames.ts"
REASONS = ROOT / "docs" / "reasons.md"
CHART = ROOT / "helm" / "sowline" / "values.schema.json"
EDITORS = ROOT / "docs" / "schemas"
TOPICS = EDITORS / "topics.schema.json"
PIPELINE = EDITORS / "pipeline.schema.json"
ACCESS = EDITORS / "access.schema.json"


def generated() -> dict[Path, str]:
    """Return the content of each file, as it should be now."""
    schema = frames_schema()
    return {
        FRAMES: _json(schema),
        ASYNCAPI: _yaml(asyncapi(schema)),
        OPENAPI: _yaml(openapi()),
        TYPESCRIPT: typescript(schema),
        PAGE: with_tables(PAGE.read_text(encoding="utf-8"), schema),
        REASONS: reasons_page(),
        CHART: chart_schema(CHART.read_text(encoding="utf-8")),
        TOPICS: _json(topics_schema()),
        PIPELINE: _json(pipeline_schema()),
        ACCESS: _json(access_schema()),
    }


def _json(description: Schema) -> str:
    return json.dumps(description, indent=2, ensure_ascii=False) + "\n"


def _yaml(description: Schema) -> str:
    return yaml.dump(description, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Dumper(yaml.SafeDumper):
    """Writes a part that occurs twice twice: tools that read descriptions do not expect YAML's anchors."""

    def ignore_aliases(self, data: object) -> bool:
        """Use no anchors."""
        return True
