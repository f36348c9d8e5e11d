"""`topics.yaml`: defines the topics, the keys of their records, and the fanouts written from them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

from pydantic import Field, model_validator

from sowline.codecs.codec import codec_of
from sowline.codecs.schema import is_format
from sowline.commands.key_rule import GeneratedKeys
from sowline.config.declared_topic import JSON, DeclaredTopic
from sowline.config.fanouts import FanoutDefinition
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topic_fields import TopicsModel, refuse_twice
from sowline.config.views import ComputedTopic, ConflatedDefinition, Join, ViewDefinition
from sowline.config.yaml_file import YamlFile, YamlFileError, open_yaml_file
from sowline.errors import SowlineError
from sowline.model.limits import HEADROOM_BYTES
from sowline.model.path import Path as FieldSteps

POSITION_BYTES: Final = 32
"""Bytes of a partition's position in a bookmark, at most."""


class Topics(TopicsModel):
    """The content of `topics.yaml`."""

    declared: tuple[DeclaredTopic, ...] = Field(min_length=1, alias="topics", description="the topics")
    views: tuple[ViewDefinition, ...] = Field(default=(), description="topics that are computed from others")
    conflated: tuple[ConflatedDefinition, ...] = Field(
        default=(), description="topics that change a record at most once per interval"
    )
    fanouts: tuple[FanoutDefinition, ...] = Field(
        default=(), description="subscriptions that are written to Kafka topics"
    )

    @cached_property
    def topics(self) -> tuple[TopicDefinition, ...]:
        """All topics: the declared ones, then the computed ones, each after its source."""
        found = {topic.name: TopicDefinition.of(topic) for topic in self.declared}
        waiting = self.computed
        while waiting:
            ready = [view for view in waiting if all(name in found for name in view.read_topics)]
            if not ready:
                break  # `_check_views` refuses them
            for view in ready:
                found[view.name] = TopicDefinition.of_view(view, found)
                waiting.remove(view)
        return tuple(found.values())

    @model_validator(mode="before")
    @classmethod
    def _one_name_for_each_type(cls, given: Any) -> Any:
        """Add the message type to the name of a topic if an earlier topic of another type has that name."""
        if not isinstance(given, dict) or not isinstance(given.get("topics"), list):
            return given
        first: dict[Any, Any] = {}
        topics = []
        for topic in given["topics"]:
            topics.append(topic)
            if isinstance(topic, dict) and isinstance(topic.get("name"), str):
                type = topic.get("message_type", JSON)
                if first.setdefault(topic["name"], type) != type:
                    topics[-1] = {**topic, "name": f"{topic['name']}.{type}"}
        return {**given, "topics": topics}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        refuse_twice("topic", self._names)
        # Before the checks that look for topics by name: `topics` lacks views that read each other in a circle.
        self._check_views()
        kafka = [name for topic in self.topics for name in topic.kafka.names]
        # The log of a topic `a.changes` would be the changes of the topic `a`: what clients publish would stand among
        # the events of a partition's owner (test_topics_do_not_get_in_each_others_way).
        refuse_twice("Kafka topic", kafka + [fanout.output for fanout in self.fanouts])
        named = {topic.name: topic for topic in self.topics}
        for fanout in self.fanouts:
            if fanout.topic not in named:
                raise ValueError(
                    f"expected a defined topic for fanout {fanout.name!r} to read, got {fanout.topic!r}: define it,"
                    f" or name another"
                )
            if fanout.message_type != JSON and fanout.schema_of(named[fanout.topic]) is None:
                raise ValueError(
                    f"expected a schema for fanout {fanout.name!r}, which is written as {fanout.message_type}, got"
                    f" none: give it one, because topic {fanout.topic!r} has message type"
                    f" {named[fanout.topic].message_type}"
                )
            options = fanout.reading
            if (options.intrinsics or options.no_redundant) and not named[fanout.topic].documents:
                raise ValueError(
                    f"expected a topic with documents: true for fanout {fanout.name!r}, got {fanout.topic!r}: leave"
                    " out intrinsics and no_redundant, or read another topic"
                )
        return self

    @property
    def computed(self) -> list[ComputedTopic]:
        """The views and the conflated topics."""
        return [*self.views, *self.conflated]

    @property
    def _names(self) -> list[str]:
        return [topic.name for topic in self.declared] + [view.name for view in self.computed]

    def _check_views(self) -> None:
        names = set(self._names)
        for view in self.computed:
            for read in view.read_topics:
                if read not in names:
                    raise ValueError(
                        f"expected a defined topic for view {view.name!r} to read, got {read!r}: define it, or name"
                        f" another"
                    )
        found = {topic.name: topic for topic in self.topics}
        if cyclic := [view.name for view in self.computed if view.name not in found]:
            raise ValueError(
                f"expected views that do not read each other in a circle, got {', '.join(cyclic)}"
            )
        for view in self.computed:
            for read in view.read_topics:
                if not found[read].has_sow:
                    raise ValueError(
                        f"expected a topic with records for view {view.name!r} to read, got {read!r}, which has sow:"
                        f" false"
                    )
            for join in view.joins:
                _check_join(view, join, found[join.topic])
            if view.joins:
                _check_positions(found[view.name], [found[name] for name in view.read_topics])

    def named(self, name: str) -> TopicDefinition:
        """Return the topic with this name; raise `invalid topic`."""
        return _named(self.topics, name)


@dataclass(frozen=True)
class DescribedTopics:
    """Topics as a service describes them: a client knows that a topic is computed, but not how."""

    topics: tuple[TopicDefinition, ...]

    def named(self, name: str) -> TopicDefinition:
        """Return the topic with this name; raise `invalid topic`."""
        return _named(self.topics, name)


def _named(topics: Sequence[TopicDefinition], name: str) -> TopicDefinition:
    for topic in topics:
        if topic.name == name:
            return topic
    known = ", ".join(topic.name for topic in topics) or "none"
    raise SowlineError("invalid topic", f"expected a defined topic ({known}), got {name!r}")


def _check_join(view: ComputedTopic, join: Join, topic: TopicDefinition) -> None:
    """Raise ValueError unless a join multiplies, or names all fields of the joined topic's key."""
    if join.multiply:
        return
    keys = {str(FieldSteps(path)) for path in topic.identified_by}
    named = {str(theirs) for _, theirs in join.equalities}
    if not keys:
        raise ValueError(
            f"expected a topic with key fields for view {view.name!r} to join, got {join.topic!r},"
            f" {_why_no_key(topic)}: add multiply: true, so that several records may fit, or join another topic"
        )
    if named != keys or len(join.equalities) != len(keys):
        raise ValueError(
            f"view {view.name!r} joins topic {join.topic!r} on {', '.join(sorted(named))}: expected the fields of its"
            f" key, {', '.join(sorted(keys))}, each once, so that at most one record fits; add multiply: true if"
            " several may"
        )


def _check_positions(topic: TopicDefinition, read: Sequence[TopicDefinition]) -> None:
    """Raise ValueError if the positions of all that a view with joins reads do not fit into its events."""
    # A change names those that one source partition has taken, a progress event those of all source partitions.
    # Kafka would refuse a larger event, and the materializer would stop.
    source, owner = read[0], sum(len(one.log) + POSITION_BYTES * one.partitions for one in read)
    room = min(HEADROOM_BYTES // 2, topic.kafka.log_bytes_max // source.partitions)
    if owner > room:
        raise ValueError(
            f"view {topic.name!r} reads {sum(one.partitions for one in read)} partitions, whose positions may need"
            f" {owner} bytes for each of the {source.partitions} of its source: expected at most {room}. Raise its"
            " record_bytes_max, or join topics with fewer partitions"
        )


def _why_no_key(topic: TopicDefinition) -> str:
    """Return why no fields of a topic identify its records."""
    view, source = topic.view, topic.source
    if view is None or source is None:
        return "whose SOW keys are not made of fields of its records"
    if not view.has_keys_of_source:
        return "whose records are pairs of joined records"
    if not source.identified_by:
        return f"which has the records of {source.name!r}, {_why_no_key(source)}"
    lost = [str(FieldSteps(path)) for path in source.identified_by if not view.keeps(path)]
    return f"whose records do not have the key field {lost[0]} of {source.name!r}"


def load_topics(path: Path) -> Topics:
    """Return the topics in `topics.yaml`; raise `bad configuration` with the file, the line and the error.

    `${NAME}` and `${NAME:-default}` in it are environment variables. Key generators and codecs must be installed.
    """
    return read_topics(open_topics(path))


def open_topics(path: Path) -> YamlFile:
    """Return a `topics.yaml` with the lines of its values; raise `bad configuration`."""
    return open_yaml_file(path, "a file of topics", os.environ)


def parse_topics(text: str, name: str = "topics.yaml") -> Topics:
    """Return the topics in the text of a `topics.yaml`; errors call it `name`.

    Key generators and codecs must be installed.
    """
    return read_topics(YamlFile(text, name))


def read_topics(declaration: YamlFile) -> Topics:
    """Return the topics in a file; raise `bad configuration`, also for a key generator or a schema that can't be
    loaded.
    """
    topics = declaration.read(Topics, json_at=("topics", "template"))
    # Loaded now, so that a missing library is an error with its line in the file, not one of the first record.
    problems = []
    for number, topic in enumerate(topics.topics):
        try:
            field: tuple[str, ...] = "key", "generator"
            if isinstance(topic.key_rule, GeneratedKeys):
                topic.key_rule.generator  # noqa: B018 - it loads it
            field = ("message_format" if is_format(topic.message_type) else "reader_schema",)
            topic.codec  # noqa: B018 - it loads it
        except SowlineError as error:
            problems.append(declaration.problem(("topics", number, *field), error.message))
    for number, fanout in enumerate(topics.fanouts):
        schema = fanout.schema_of(topics.named(fanout.topic))
        try:
            schema is None or codec_of(schema)
        except SowlineError as error:
            problems.append(declaration.problem(("fanouts", number, "schema"), error.message))
    if problems:
        raise YamlFileError(problems)
    return topics
