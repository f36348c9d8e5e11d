"""The parts of the chart's values that follow from the services' settings and from `topics.yaml`."""

import json
from typing import Any

from contract.editor_schemas import topics_schema
from sowline.config.settings import Settings

# What the chart sets itself, from values of its own.
TAKEN = frozenset(
    {
        "access",
        "kafka",
        "kafka_options",
        "config",
        "data_dir",
        "host",
        "nodes",
        "nodes_ca_file",
        "nodes_cert_file",
        "nodes_key_file",
        "nodes_token_file",
        "port",
        "shard",
        "snapshot_dir",
        "standby",
        "tls_cert",
        "tls_key",
        "tls_client_ca",
        "tls_client_required",
    }
)


def settings_schema() -> dict[str, Any]:
    """Return the properties of the chart's `settings`: every setting of the services but those of `TAKEN`."""
    properties = Settings.model_json_schema()["properties"]
    return {
        name: _without(schema, "title", "default") for name, schema in properties.items() if name not in TAKEN
    }


def _without(schema: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in keys}


def chart_schema(text: str) -> str:
    """Return the schema's text with the settings and the definitions of topics as they are now."""
    schema = json.loads(text)
    settings = schema["properties"]["settings"]
    settings["additionalProperties"] = False
    settings["properties"] = settings_schema()
    topics = _of_draft_7(topics_schema())
    config = schema["properties"]["config"]["properties"]
    for name, field in topics["properties"].items():
        config[name]["items"] = field["items"]
    schema["definitions"] = topics["definitions"]
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _of_draft_7(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with its definitions where draft 7 has them: Helm before 3.18 knows no newer draft."""
    text = json.dumps(schema | {"definitions": schema["$defs"]})
    return _without(json.loads(text.replace('"#/$defs/', '"#/definitions/')), "$defs")
