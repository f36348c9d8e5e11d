"""The options of message types without schemas, as they stand in `topics.yaml` under `message_format`."""

from functools import cached_property
from typing import Annotated, Any, Final, Literal, Self

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from sowline.codecs.fix import read_dictionary, read_value_names
from sowline.codecs.schema import (
    BINARY,
    BSON,
    COMPOSITE_GLOBAL,
    COMPOSITE_LOCAL,
    FIX,
    MSGPACK,
    NVFIX,
    XML,
    CodecType,
    Schema,
    is_format,
)
from sowline.config.plain_numbers import PlainNumbers
from sowline.config.schema_fields import text_or_file
from sowline.errors import SowlineError

PARTS_MAX: Final = 100

_OPTIONS: Final[dict[str, frozenset[str]]] = {
    FIX: frozenset({"dictionaries", "names", "groups", "data", "separator"}),
    NVFIX: frozenset({"groups", "data", "separator"}),
    XML: frozenset({"namespaces", "lists"}),
    COMPOSITE_LOCAL: frozenset({"parts"}),
    COMPOSITE_GLOBAL: frozenset({"parts"}),
    MSGPACK: frozenset(),
    BSON: frozenset(),
    BINARY: frozenset(),
}
"""The options that each message type has."""


class _FormatModel(PlainNumbers, BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, ignored_types=(cached_property,))


class DictionaryText(_FormatModel):
    """A data dictionary of FIX, in the XML of QuickFIX."""

    text: str = Field(min_length=1, max_length=16 << 20, description="the dictionary itself")


def _text_of_number(given: Any) -> Any:
    return str(given) if isinstance(given, int) and not isinstance(given, bool) else given


Tag = Annotated[str, BeforeValidator(_text_of_number)]
"""A tag of FIX, as text. YAML may contain it as a number."""

Dictionary = Annotated[DictionaryText, BeforeValidator(text_or_file("a data dictionary"))]


class MessageFormat(_FormatModel):
    """How messages of a type without schemas are read and written. Each option is for some message types."""

    dictionaries: tuple[Dictionary, ...] = Field(
        default=(),
        max_length=10,
        description="fix: QuickFIX data dictionaries, for the names of fields and for groups",
    )
    names: dict[Tag, str] = Field(default={}, description="fix: the names of fields, by tag")
    groups: dict[Tag, tuple[int | str, ...]] = Field(
        default={},
        description="fix, nvfix: repeating groups: the field with the count, and the fields of an entry",
    )
    data: dict[Tag, int | str | None] = Field(
        default={},
        description="fix, nvfix: fields with the length of another one that may contain separators, and that one",
    )
    separator: str = Field(
        default="", max_length=1, description="fix, nvfix: what ends a field, the byte 1 if empty"
    )
    namespaces: dict[str, str] = Field(
        default={},
        max_length=100,
        description="xml: prefixes and the namespaces that they stand for in paths",
    )
    lists: tuple[str, ...] = Field(
        default=(), max_length=1000, description="xml: paths of elements that are arrays even if there is one"
    )
    parts: tuple["CompositePart", ...] = Field(
        default=(),
        max_length=PARTS_MAX,
        description="composite-local, composite-global: the parts of a message",
    )

    @cached_property
    def _facts(self) -> dict[str, Any]:
        """The parts of the dictionaries that the codec needs."""
        return read_dictionary(*(one.text for one in self.dictionaries)) if self.dictionaries else {}

    @model_validator(mode="after")
    def _has_dictionaries(self) -> Self:
        try:
            self._facts  # noqa: B018 - it reads them
        except SowlineError as error:
            raise ValueError(error.message) from None
        return self

    def check(self, type: str) -> None:
        """Raise ValueError for an option that a message type does not have, or lacks."""
        if unfit := sorted(self.model_fields_set - _OPTIONS[type]):
            expected = ", ".join(sorted(_OPTIONS[type])) or "no options"
            raise ValueError(f"expected {expected} with message type {type}, got {', '.join(unfit)}")
        if "parts" in _OPTIONS[type] and not self.parts:
            raise ValueError(f"expected parts with message type {type}, got none")

    def schema_of(self, type: CodecType) -> Schema:
        """Return the options as the text that the codec of a message type reads."""
        # Sorted, because this text identifies the options: the order in which a user writes them must not change it.
        return Schema(type, orjson.dumps(self.sent(), option=orjson.OPT_SORT_KEYS).decode())

    def sent(self) -> dict[str, Any]:
        """Return the options for the codec: those that are set, and the parts of the dictionary that it needs."""
        facts = self._facts
        options = {
            "names": {**facts.get("names", {}), **self.names},
            "groups": {**self._dictionary_groups(), **self.groups},
            "data": {**facts.get("data", {}), **self.data},
            "separator": self.separator,
            "namespaces": self.namespaces,
            "lists": self.lists,
            "parts": [part.sent() for part in self.parts],
        }
        # The text of these identifies the options. With all of them, a version that has one more would find other
        # options in every topic (test_only_what_is_set_is_sent).
        return {name: value for name, value in options.items() if value}

    @cached_property
    def value_names(self) -> dict[str, dict[str, str]]:
        """The meanings of the values of fields, from the dictionaries, by the name of the field in records."""
        by_tag = read_value_names(*(one.text for one in self.dictionaries))
        names: dict[str, str] = self.sent().get("names", {})
        return {names.get(tag, tag): values for tag, values in by_tag.items()}

    def _dictionary_groups(self) -> dict[str, list[int]]:
        """Return the groups of the dictionaries; without those that the options give for all messages."""
        found: dict[str, list[int]] = self._facts.get("groups", {})
        return {key: members for key, members in found.items() if key.rpartition(":")[2] not in self.groups}

    def named(self, type: str, path: tuple[str, ...]) -> tuple[str, ...]:
        """Return the path of a field in records: with the name of its tag, if the tag has a name."""
        if type == COMPOSITE_LOCAL and path[0].isdecimal() and int(path[0]) < len(self.parts):
            part = self.parts[int(path[0])]
            return path[0], *(part.format or NO_OPTIONS).named(part.type, path[1:])
        if type != FIX or not path:
            return path
        names: dict[str, str] = self.sent().get("names", {})
        return names.get(path[0], path[0]), *path[1:]


class CompositePart(_FormatModel):
    """A part of a composite message: its message type, and the options of that."""

    type: Literal["json", "fix", "nvfix", "xml", "msgpack", "bson", "binary"] = Field(
        description="the message type of the part"
    )
    format: MessageFormat | None = Field(default=None, description="the options of its message type")

    @model_validator(mode="after")
    def _has_its_options(self) -> Self:
        if is_format(self.type):
            (self.format or NO_OPTIONS).check(self.type)
        elif self.format is not None:
            raise ValueError(f"expected no format with a part of type {self.type}, got one")
        return self

    def sent(self) -> dict[str, Any]:
        """Return the part as the codec of the composite reads it."""
        return {"type": self.type} | ({} if self.format is None else {"format": self.format.sent()})


NO_OPTIONS: Final = MessageFormat()
