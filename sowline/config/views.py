"""Computed topics in `topics.yaml`: `views:`, and `conflated:` for topics whose records change less often."""

import re
from collections.abc import Mapping
from functools import cached_property
from hashlib import blake2b
from typing import Annotated, Any, Literal, Self

import orjson
from pydantic import AfterValidator, Field, field_validator, model_validator

from sowline.config.topic_fields import (
    DurationMs,
    FieldPath,
    HashIndexes,
    HistoryDefinition,
    IndexedPaths,
    RecordBytesMax,
    Replication,
    ResumeWindow,
    TopicName,
    TopicsModel,
)
from sowline.errors import SowlineError
from sowline.language.expressions.projection import (
    FIELDS_MAX,
    GROUPING_PATHS_MAX,
    Projection,
    is_aggregate,
    parse_grouping,
    parse_projection,
)
from sowline.language.filter import Filter, FilterError, compile_filter, require_deterministic
from sowline.language.filter.tree import walk
from sowline.model.difference import Keys, Names
from sowline.model.limits import MIB
from sowline.model.path import Path, PathError, parse_path

JOINS_MAX = 8
INTERVAL_MS_MIN = 10
INTERVAL_MS_MAX = 3_600_000


def _filter_of_records(text: str) -> str:
    """Check that a filter depends only on the fields of a record, and so has the same result at any time."""
    try:
        filter = compile_filter(text)
        require_deterministic(filter, "the filter of a view")
    except (FilterError, SowlineError) as error:
        raise ValueError(error.message) from None
    # Metadata changes without the record. No change would make the view compute again
    # (test_the_filter_of_a_view_is_on_the_fields_of_a_record).
    if filter.needs_about:
        raise ValueError("expected a filter on the fields of a record, got one on its metadata")
    return text


RecordFilter = Annotated[str, AfterValidator(_filter_of_records)]


class ComputedTopic(TopicsModel):
    """A topic that is computed from another one, and the options of the topic that it is."""

    name: TopicName
    source: TopicName = Field(alias="from", description="the topic or view that it is computed from")
    partitions: int | None = Field(default=None, ge=1, le=1024, description="those of the source if left out")
    replication: Replication = 1
    delta: bool = Field(default=False, description="whether updates list in a header what they changed")
    record_bytes_max: RecordBytesMax = MIB
    resume_window: ResumeWindow = Field(default="1h", validate_default=True)
    history: HistoryDefinition | None = Field(default=None, description="whether the past can be asked for")
    indexes: IndexedPaths = ()
    hash_indexes: HashIndexes = ()

    @property
    def grouping_paths(self) -> tuple[Path, ...]:
        """The fields that records are grouped by; empty if each record is one of the source."""
        return ()

    @property
    def projected(self) -> Projection | None:
        """The fields of a record; None for the whole record of the source."""
        return None

    @property
    def record_filter(self) -> Filter | None:
        """The filter on the source's records; None if all count."""
        return None

    @property
    def result_filter(self) -> Filter | None:
        """The filter on results; None if all are records of the topic."""
        return None

    @property
    def joins(self) -> tuple["Join", ...]:
        """The topics whose records are added to those of the source."""
        return ()

    @property
    def interval_ms(self) -> int:
        """How long the service merges changes before it writes them, in ms; 0: it writes each change."""
        return 0

    @property
    def has_keys_of_source(self) -> bool:
        """Whether each record has the SOW key of the record of the source that it is computed from."""
        return not self.grouping_paths and not any(join.multiply for join in self.joins)

    def keeps(self, path: Names) -> bool:
        """Whether a field of a record is that of the source's record, in a view of single records."""
        return not self._is_replaced(path) and path in self._shown_at(path)

    def key_fields(self, read: Mapping[str, Keys]) -> Keys:
        """Return the fields of a record that make its key, given those of the topics that are read.

        They are the fields of the grouping. In a view of single records they are the key fields of the source, and of
        each joined topic with several matches, wherever the projection shows them.
        """
        if self.projected is not None and self.grouping_paths:
            return self.projected.key_fields(self.grouping_paths)
        fields = [path for path in read[self.source] if not self._is_replaced(path)]
        for join in self.joins:
            fields += [(join.name, *path) for path in read[join.topic] if join.multiply]
        return tuple(shown for path in fields for shown in self._shown_at(path))

    def _is_replaced(self, path: Names) -> bool:
        """Whether a joined record replaces a field of the source's record."""
        return any(join.name == path[0] for join in self.joins)

    def _shown_at(self, path: Names) -> Keys:
        """Return the paths at which a record shows a field of the record that it is computed from."""
        return (path,) if self.projected is None else self.projected.shown_at(path)

    @property
    def read_topics(self) -> list[str]:
        """The topics that it is computed from: its source, and those that it joins."""
        return list(dict.fromkeys([self.source, *(join.topic for join in self.joins)]))

    @property
    def digest(self) -> str:
        """A hash of everything that determines how the records are computed."""
        # Not the interval, so that it may change while the topic has state
        # (test_a_conflated_topic_has_the_records_of_its_source).
        return _digest_of([self.source])

    def described(self) -> dict[str, Any]:
        """Return the definition of the computation, as JSON."""
        condition, fields, results = self.record_filter, self.projected, self.result_filter
        return {
            "from": self.source,
            "filter": "" if condition is None else condition.text,
            "grouping": [str(path) for path in self.grouping_paths],
            "projection": "" if fields is None else fields.text,
            "having": "" if results is None else results.text,
            "joins": [
                {
                    "topic": join.topic,
                    "on": join.on,
                    "as": join.name,
                    "kind": join.kind,
                    "multiply": join.multiply,
                }
                for join in self.joins
            ],
            "interval_ms": self.interval_ms,
        }


def _digest_of(deciding: list[Any]) -> str:
    return blake2b(orjson.dumps(deciding), digest_size=8).hexdigest()


class ConflatedDefinition(ComputedTopic):
    """A topic with the records and the SOW keys of another one, which changes a record once in an interval."""

    interval: DurationMs = Field(description="how long the changes of a record are merged")

    @field_validator("interval")
    @classmethod
    def _some(cls, interval_ms: int) -> int:
        if not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
            raise ValueError(f"expected an interval of 10ms to 1h, got {interval_ms}ms")
        return interval_ms

    @property
    def interval_ms(self) -> int:
        """How long the service merges changes before it writes them, in ms."""
        return self.interval


class Join(TopicsModel):
    """A topic whose record is added to each record of the source, under a name.

    `on` names the fields that must be equal, those of the source first: `/customer = /id`. The fields of the joined
    topic are all fields of its key, so that at most one record fits. With `multiply` they may be any fields, and each
    record that fits counts.
    """

    topic: TopicName
    on: str = Field(description="fields of the source, and the fields of the topic that equal them")
    name: str = Field(
        alias="as",
        pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$",
        description="the field of the source's record that contains the topic's record",
    )
    kind: Literal["left", "inner"] = Field(
        default="left", description="left: records without a match count, too; inner: they do not"
    )

    multiply: bool = Field(
        default=False, description="whether several records may fit, each in a record of the view"
    )

    @field_validator("on")
    @classmethod
    def _equalities(cls, text: str) -> str:
        _read_equalities(text)
        return text

    @cached_property
    def equalities(self) -> tuple[tuple[Path, Path], ...]:
        """The pairs of fields that must be equal: one of the source, and one of the joined topic."""
        return _read_equalities(self.on)

    @property
    def deciding(self) -> list[Any]:
        """The values that decide which records are joined, as JSON."""
        # Only what is set, so that a view without it keeps its digest, and with it its state.
        return [self.topic, self.on, self.name, self.kind, *([True] if self.multiply else [])]


_PATH = r"(?:[^\s\[\]=]|\[[^\]]*\])+"
"""A path; names in brackets may have blanks and `=`."""

_EQUAL = rf"({_PATH})\s*=\s*({_PATH})"
_EQUALITY = re.compile(_EQUAL)
_EQUALITIES = re.compile(rf"\s*{_EQUAL}(?:\s+AND\s+{_EQUAL})*\s*", re.IGNORECASE)


def _read_equalities(text: str) -> tuple[tuple[Path, Path], ...]:
    if not _EQUALITIES.fullmatch(text):
        raise ValueError(f"expected fields such as /customer = /id, with AND between them, got {text!r}")
    try:
        return tuple((parse_path(ours), parse_path(theirs)) for ours, theirs in _EQUALITY.findall(text))
    except PathError as error:
        raise ValueError(error.message) from None


class ViewDefinition(ComputedTopic):
    """One view: the topic that it reads, and what it computes.

    With a `grouping`, each record is a group of the source's records; without one, each record is one of the source's
    records. `projection` lists the fields of a record, `expression AS /path` or a bare path; without it, a record of
    an ungrouped view is the source's whole record. `having` is a filter on the fields of the result.
    """

    join: tuple[Join, ...] = Field(
        default=(), max_length=JOINS_MAX, description="topics whose records are added to those of the source"
    )
    filter: RecordFilter = Field(default="", description="which records of the source count")
    grouping: tuple[FieldPath, ...] = Field(
        default=(),
        max_length=GROUPING_PATHS_MAX,
        description="fields whose equal values make a group; without any, each record of the source is one here",
    )
    projection: tuple[str, ...] = Field(
        default=(),
        max_length=FIELDS_MAX,
        description="the fields of a record: expressions such as SUM(/qty) AS /total, or paths",
    )
    having: RecordFilter = Field(default="", description="which results are records of the view")

    @model_validator(mode="after")
    def _can_be_computed(self) -> Self:
        try:
            paths, fields = self.grouping_paths, self.projected
        except SowlineError as error:
            raise ValueError(error.message) from None
        names = [join.name for join in self.join]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"expected a different name for each joined topic, got as: {twice[0]} twice")
        if paths and fields is None:
            raise ValueError("expected a projection with a grouping, such as COUNT(1) AS /records, got none")
        if fields is None:
            return self
        if fields.nondeterministic:
            raise ValueError(
                f"expected a projection that depends only on the records, got {fields.nondeterministic[0]}"
            )
        aggregates = [
            node for field in fields.fields for node in walk(field.expression) if is_aggregate(node)
        ]
        if aggregates and not paths:
            raise ValueError(
                "expected a grouping with an aggregate, got none (a view of one group can group by a field that is"
                " always null)"
            )
        return self

    @property
    def joins(self) -> tuple[Join, ...]:
        """The topics whose records are added to those of the source."""
        return self.join

    @cached_property
    def grouping_paths(self) -> tuple[Path, ...]:
        """The fields that records are grouped by; empty for a view of single records."""
        return parse_grouping(", ".join(self.grouping)) if self.grouping else ()

    @cached_property
    def projected(self) -> Projection | None:
        """The fields of a record; None for the whole record of the source.

        Groups have their grouping fields, too, unless the projection names an output over or under them.
        """
        if not self.projection:
            return None
        fields = parse_projection(", ".join(self.projection))
        outputs = {field.output for field in fields.fields}
        shown = [str(path) for path in self.grouping_paths if not _is_covered(path, outputs)]
        return parse_projection(", ".join([*shown, fields.text]))

    @cached_property
    def record_filter(self) -> Filter | None:
        """The filter on the source's records; None if all count."""
        return compile_filter(self.filter) if self.filter else None

    @cached_property
    def result_filter(self) -> Filter | None:
        """The filter on results; None if all are records of the view."""
        return compile_filter(self.having) if self.having else None

    @cached_property
    def digest(self) -> str:
        """A hash of everything that determines how the records are computed."""
        fields = self.projected
        deciding: list[Any] = [
            self.source,
            self.filter,
            [str(path) for path in self.grouping_paths],
            None if fields is None else fields.text,
            self.having,
        ]
        # Only with joins, so that views without them keep their digest, and with it their state.
        if self.join:
            deciding.append([join.deciding for join in self.join])
        return _digest_of(deciding)


def _is_covered(path: Path, outputs: set[Names]) -> bool:
    steps = tuple(map(str, path.steps))
    return any(output[: len(steps)] == steps or steps[: len(output)] == output for output in outputs)
