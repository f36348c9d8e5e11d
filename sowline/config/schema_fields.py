"""Validators for the schemas in `topics.yaml`: texts, or files next to it."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo

from sowline.codecs.schema import CodecType, Schema
from sowline.config.plain_numbers import PlainNumbers

SCHEMA_BYTES_MAX: Final = 1 << 20
SCHEMA_ID_MAX: Final = 2**63 - 1


def text_or_file(what: str) -> Callable[[Any, ValidationInfo], Any]:
    """Return a validator that replaces the name of a `file` by its `text`, and of files in `references` by theirs.

    `what` is the noun for errors: "a schema".
    """

    def read(given: Any, info: ValidationInfo) -> Any:
        if not isinstance(given, dict) or "file" not in given:
            return given
        if "text" in given:
            raise ValueError("expected either text or file, got both")
        directory = (info.context or {}).get("directory")
        if directory is None:
            raise ValueError(
                f"expected the text of {what}, got the name of a file: only a topics.yaml on disk may name files"
            )
        kept = {name: value for name, value in given.items() if name != "file"}
        if isinstance(references := given.get("references"), dict):
            kept["references"] = {name: text(directory, file) for name, file in references.items()}
        return kept | {"text": text(directory, given["file"])}

    def text(directory: Path, file: Any) -> str:
        try:
            return (directory / str(file)).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"expected {what} in the file {file}: {error}") from None

    return read


class SchemaText(PlainNumbers, BaseModel):
    """A schema and what it refers to, by name. `message` is the name of a Protobuf message; empty: the first."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str = Field(min_length=1, max_length=SCHEMA_BYTES_MAX, description="the schema itself")
    references: dict[str, str] = Field(
        default={}, max_length=100, description="the texts of the schemas that it refers to, by name"
    )
    message: str = Field(
        default="", max_length=500, description="the name of a Protobuf message; the first if empty"
    )

    def schema_of(self, type: CodecType) -> Schema:
        """Return the schema, of a message type."""
        return Schema(type, self.text, tuple(self.references.items()), self.message)


class PinnedSchema(SchemaText):
    """The reader schema of a topic. Messages that Sowline writes have its `id` in the registry."""

    id: int | None = Field(default=None, ge=0, le=SCHEMA_ID_MAX, description="its id in the registry")
    subject: str = Field(default="", max_length=250, description="its subject in the registry")


KnownSchema = Annotated[SchemaText, BeforeValidator(text_or_file("a schema"))]
ReaderSchema = Annotated[PinnedSchema, BeforeValidator(text_or_file("a schema"))]
SchemaId = Annotated[int, Field(ge=0, le=SCHEMA_ID_MAX)]
