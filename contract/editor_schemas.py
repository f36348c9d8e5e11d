"""The JSON Schemas of the files that users write, for their editors: `topics.yaml`, access files and pipelines.

They are made from the models that read the files. A model checks more than a schema can say, and it reads values as
texts, where an editor reads numbers and booleans.
"""

from typing import Any

from pydantic import BaseModel

from contract.schemas import Schema
from sowline.config.topics import Topics
from sowline.serving.authorization.access_file import Access
from sowline_ingest.definition import Pipeline

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_VARIABLE: Schema = {"type": "string", "pattern": r"\$\{"}
"""A value from the environment, such as `${PARTITIONS:-2}`."""

_FILE: Schema = {"type": "string", "description": "the path of a file with the text, relative to this file"}
_SCALARS = ["string", "number", "boolean"]


def topics_schema() -> Schema:
    """Return the schema of `topics.yaml`."""
    return _schema_of(Topics, "topics.yaml of Sowline", has_variables=True)


def pipeline_schema() -> Schema:
    """Return the schema of the file of a pipeline."""
    return _schema_of(Pipeline, "A pipeline of Sowline", has_variables=True)


def access_schema() -> Schema:
    """Return the schema of an access file."""
    return _schema_of(Access, "An access file of Sowline", has_variables=False)


def _schema_of(model: type[BaseModel], title: str, *, has_variables: bool) -> Schema:
    written: Schema = _written(model.model_json_schema(), has_variables=has_variables)
    for one in written.get("$defs", {}).values():
        _with_file(one)
        # The model fills it in, so that one error covers a missing schema and an empty one; some formats have none.
        if "schema" in one.get("required", ()):
            one["required"].remove("schema")
    return {"$schema": DIALECT, "title": title, **written}


def _with_file(schema: Schema) -> None:
    """Let a text that files may have be in another file."""
    if schema.get("required") == ["text"]:
        schema["properties"]["file"] = _FILE
        del schema["required"]
        schema["oneOf"] = [{"required": ["text"]}, {"required": ["file"]}]


def _written(schema: Any, *, has_variables: bool) -> Any:
    """Return a schema of what a model reads as one of what its user writes."""
    if isinstance(schema, list):
        return [_written(part, has_variables=has_variables) for part in schema]
    if not isinstance(schema, dict):
        return schema
    written = {
        key: {name: _written(part, has_variables=has_variables) for name, part in value.items()}
        if key in ("properties", "$defs")
        else value
        if key in ("default", "enum", "const", "required")
        else _written(value, has_variables=has_variables)
        for key, value in schema.items()
        if key not in ("title", "discriminator")
    }
    return _with_variables(_without_null(written)) if has_variables else _of_scalars(_without_null(written))


def _without_null(schema: Schema) -> Schema:
    """Return a schema without null, which is no value of these files: a field may be left out."""
    written = [part for part in schema.get("anyOf", ()) if part != {"type": "null"}]
    without = {key: value for key, value in schema.items() if (key, value) != ("default", None)}
    if "anyOf" not in without:
        return without
    del without["anyOf"]
    return {**written[0], **without} if len(written) == 1 else {"anyOf": written, **without}


def _of_scalars(schema: Schema) -> Schema:
    """Return the schema of a text so that it accepts a number, which the model reads as its digits."""
    is_any_text = schema.get("type") == "string" and not schema.keys() & {"enum", "const", "pattern"}
    return {**schema, "type": _SCALARS} if is_any_text else schema


def _with_variables(schema: Schema) -> Schema:
    """Return the schema of a value so that it accepts a variable of the environment."""
    schema = _of_scalars(schema)
    if schema.get("type") not in ("integer", "number", "boolean", "string") or schema == _VARIABLE:
        return schema
    about: Schema = {key: schema[key] for key in ("description", "default") if key in schema}
    value = {key: part for key, part in schema.items() if key not in about}
    return {"anyOf": [value, _VARIABLE], **about}
