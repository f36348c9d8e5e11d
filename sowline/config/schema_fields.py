"""Validators for the schemas in `topics.yaml`: texts, or files next to it."""

from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from sowline.codecs.schema import Schema, SchemaType

SCHEMA_BYTES_MAX: Final = 1 << 20
SCHEMA_ID_MAX: Final = 2**63 - 1


def _files_read(given: Any, info: ValidationInfo) -> Any:
    """Replace the names of files by their texts: of the schema, and of all that it refers to."""
    if not isinstance(given, dict) or "file" not in given:
        return given
    if "text" in given:
        raise ValueError("expected either text or file, got both")
    directory = (info.context or {}).get("directory")
    if directory is None:
        raise ValueError("expected the text of the schema: only in a topics.yaml on disk can it be in a file")
    references = given.get("references", {})
    if isinstance(references, dict):
        references = {name: _text(directory, file) for name, file in references.items()}
    kept = {name: value for name, value in given.items() if name != "file"}
    return kept | {"text": _text(directory, given["file"]), "references": references}


def _text(directory: Path, file: Any) -> str:
    try:
        return (directory / str(file)).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"expected a schema in the file {file}: {error}") from None


class SchemaText(BaseModel):
    """A schema and what it refers to, by name. `message` is the name of a Protobuf message; empty: the first."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str = Field(min_length=1, max_length=SCHEMA_BYTES_MAX)
    references: dict[str, str] = Field(default={}, max_length=100)
    message: str = Field(default="", max_length=500)

    def schema_of(self, type: SchemaType) -> Schema:
        """Return the schema, of a message type."""
        return Schema(type, self.text, tuple(self.references.items()), self.message)


class PinnedSchema(SchemaText):
    """The reader schema of a topic. Messages that Sowline writes have its `id` in the registry."""

    id: int | None = Field(default=None, ge=0, le=SCHEMA_ID_MAX)
    subject: str = Field(default="", max_length=250)


KnownSchema = Annotated[SchemaText, BeforeValidator(_files_read)]
ReaderSchema = Annotated[PinnedSchema, BeforeValidator(_files_read)]
SchemaId = Annotated[int, Field(ge=0, le=SCHEMA_ID_MAX)]
