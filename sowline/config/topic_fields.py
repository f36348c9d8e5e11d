"""Validators for the fields of `topics.yaml`: names, paths, lifetimes, computed fields."""

import re
from collections.abc import Callable
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    field_validator,
    model_validator,
)

from sowline.commands.key_rule import Source
from sowline.config.plain_numbers import PlainNumbers
from sowline.errors import SowlineError
from sowline.language.expressions.enrichment import (
    ComputedField,
    EnrichmentError,
    parse_enrichment,
    parse_preprocessing,
)
from sowline.model.bookmark import EPOCH, NOW, read_time
from sowline.model.difference import Names
from sowline.model.duration import parse_duration_ms
from sowline.model.limits import DISABLED, ENABLED, LIFETIME_MS_MAX, MIB, Expiration
from sowline.model.path import Path, PathError, parse_path

INDEXES_MAX = 64
INDEX_FIELDS_MAX = 16
KEY_FIELDS_MAX = 16

# Kafka allows 249 characters, and refuses `.` and `..`. The rest is for endings such as `.partials.schemas`.
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._/-]{1,200}")
_KAFKA_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
_DURATION = r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)$"
"""For editors: `parse_duration_ms` decides."""
_PLAIN_KEY_PATH = re.compile(r"(?:/[^/\[\]\s]+)+")


def topic_name(name: str) -> str:
    """Return the name if it is a valid topic name; raise ValueError otherwise."""
    if not _TOPIC_NAME.fullmatch(name) or name in {".", ".."}:
        raise ValueError(f"expected a name of up to 200 letters, digits and . _ - /, got {name!r}")
    return name


def _kafka_name(name: str) -> str:
    if name and (not _KAFKA_NAME.fullmatch(name) or name in {".", ".."}):
        raise ValueError(f"expected a Kafka topic of up to 200 letters, digits and . _ -, got {name!r}")
    return name


def key_steps(path: str) -> Names:
    """Return the names in the path of a key field; raise ValueError.

    A path without brackets may have any characters but blanks in its names. Other names are in brackets.
    """
    if _PLAIN_KEY_PATH.fullmatch(path):
        return tuple(path.split("/")[1:])
    try:
        steps = parse_path(path).steps
    except PathError:
        steps = (0,)
    names = tuple(step for step in steps if isinstance(step, str))
    if len(names) < len(steps):
        raise ValueError(
            f"expected the path of a key field, such as /orderId, /client/id or [/unit id], got {path!r}"
        )
    return names


def _key_path(path: str) -> str:
    # One spelling for each path: the definition's digest is made of the text.
    names = key_steps(path)
    plain = "".join(f"/{name}" for name in names)
    return plain if _PLAIN_KEY_PATH.fullmatch(plain) else str(Path(names))


def _several(given: Any) -> Any:
    """Accept one text instead of a list of one."""
    return (given,) if isinstance(given, str) else given


def _field_path(text: str) -> str:
    try:
        return str(parse_path(text))
    except PathError as error:
        raise ValueError(error.message) from None


def _expiration(text: Any) -> Expiration:
    if text in (DISABLED, ENABLED):
        return ENABLED if text == ENABLED else DISABLED
    try:
        lifetime = parse_duration_ms(text)
    except ValueError:
        raise ValueError(
            f"expected disabled, enabled or a lifetime such as 30s or 5m, got {text!r}"
        ) from None
    if not 0 < lifetime <= LIFETIME_MS_MAX:
        raise ValueError(f"expected a lifetime of 1ms to {LIFETIME_MS_MAX // 86_400_000}d, got {text!r}")
    return lifetime


def _recovery_point(text: str) -> str:
    try:
        is_one = text in (EPOCH, NOW) or read_time(text) is not None
    except SowlineError:
        is_one = False
    if not is_one:
        raise ValueError(f"expected epoch, now or a time such as 20261121T120000Z, got {text!r}")
    return text


def _preprocessing_text(text: str) -> str:
    return _canonical(text, parse_preprocessing)


def _enrichment_text(text: str) -> str:
    return _canonical(text, parse_enrichment)


def _canonical(text: str, parse: Callable[[str], ComputedField]) -> str:
    try:
        # The topic's digest is made of this text. Another spelling of a field must not be another topic
        # (test_the_digest_compares_what_computed_fields_mean).
        return parse(text).text
    except EnrichmentError as error:
        raise ValueError(error.message) from None


class TopicsModel(PlainNumbers, BaseModel):
    """A part of `topics.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True, ignored_types=(cached_property,))


class _KeyModel(PlainNumbers, BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class SuppliedKey(_KeyModel):
    """Keys given by publishers: `key: {from: kafka_key}` or `key: {from: header}`."""

    source: Source = Field(alias="from", description="where a message has its key")

    def as_yaml(self) -> dict[str, Any]:
        """Return the key definition as it is written in `topics.yaml`."""
        return {"from": self.source}


class GeneratedKey(_KeyModel):
    """Keys made by an installed key generator; with a `version`, only by that version of its algorithm."""

    generator: str = Field(
        pattern=r"^[A-Za-z0-9_.-]{1,100}$", description="the name of an installed key generator"
    )
    options: dict[str, Any] = Field(default={}, description="what the generator is given")
    version: str = Field(
        default="", max_length=100, description="the only version of the algorithm that may make keys"
    )


def _kind_of_key(given: Any) -> str:
    """Return the tag for the kind of a key. Tags in brackets are left out of the paths in errors."""
    if isinstance(given, GeneratedKey) or (isinstance(given, dict) and "generator" in given):
        return "[generated]"
    return "[supplied]" if isinstance(given, (SuppliedKey, dict)) else "[fields]"


TopicName = Annotated[
    str,
    AfterValidator(topic_name),
    Field(description="up to 200 letters, digits and . _ - /", json_schema_extra={"minLength": 1}),
]
KafkaName = Annotated[str, AfterValidator(_kafka_name)]
KeyPath = Annotated[str, AfterValidator(_key_path)]
KeyFields = Annotated[
    tuple[KeyPath, ...],
    Field(max_length=KEY_FIELDS_MAX),
    BeforeValidator(_several, json_schema_input_type=str | tuple[str, ...]),
]
Key = Annotated[
    Annotated[KeyFields, Tag("[fields]")]
    | Annotated[SuppliedKey, Tag("[supplied]")]
    | Annotated[GeneratedKey, Tag("[generated]")],
    Discriminator(_kind_of_key),
]
FieldPath = Annotated[str, AfterValidator(_field_path)]
Preprocessing = Annotated[str, AfterValidator(_preprocessing_text)]
Enrichment = Annotated[str, AfterValidator(_enrichment_text)]
HashIndex = Annotated[tuple[FieldPath, ...], Field(min_length=1, max_length=INDEX_FIELDS_MAX)]
RecoveryPoint = Annotated[str, AfterValidator(_recovery_point)]
DurationMs = Annotated[
    int, BeforeValidator(parse_duration_ms, json_schema_input_type=Annotated[str, Field(pattern=_DURATION)])
]
Replication = Annotated[int, Field(ge=1, le=9, description="of the Kafka topics that Sowline creates")]
RecordBytesMax = Annotated[int, Field(ge=64, le=64 * MIB, description="the maximum size of a body, in bytes")]
ResumeWindow = Annotated[
    DurationMs, Field(description="how long every change is kept, so that clients can resume")
]
IndexedPaths = Annotated[
    tuple[FieldPath, ...],
    Field(max_length=INDEXES_MAX, description="fields whose memo index is built at start"),
]
HashIndexes = Annotated[
    tuple[HashIndex, ...],
    Field(max_length=INDEXES_MAX, description="sets of fields that are looked up by their strings"),
]
Lifetime = Annotated[
    Expiration,
    BeforeValidator(
        _expiration,
        json_schema_input_type=Annotated[str, Field(pattern=f"^({DISABLED}|{ENABLED})$|{_DURATION}")],
    ),
]


class HistoryDefinition(TopicsModel):
    """The window and granularity of a topic's history, in ms of log time."""

    window: DurationMs = Field(description="how far back")
    granularity: DurationMs = Field(
        default="0s",
        validate_default=True,
        description="the interval at which a record's states are kept; 0s: every one",
    )

    @field_validator("window")
    @classmethod
    def _some(cls, window_ms: int) -> int:
        if not window_ms:
            raise ValueError("expected a window of more than 0s, got 0s; leave history out for none")
        return window_ms

    @model_validator(mode="after")
    def _within(self) -> Self:
        if self.granularity > self.window:
            raise ValueError(
                f"expected a granularity of at most the window, {self.window} ms, got {self.granularity} ms"
            )
        return self


def refuse_twice(what: str, names: list[str]) -> None:
    """Raise ValueError if a name is in a list twice; `what` is the noun for errors."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"expected each {what} once, got {name!r} twice")
        seen.add(name)
