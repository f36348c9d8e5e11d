"""Compares two `topics.yaml`: which definitions differ, and whether running services can take the new ones.

`compare` needs only descriptions, which a service can send. `followed` makes the topics that a service runs by: those
of the new file, with the previous definition of each one that can't change while it runs. Pure.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ValidationError

from sowline.config.expected import expected_and_got
from sowline.config.topics import Topics


class Kind(StrEnum):
    """The lists of `topics.yaml`."""

    TOPIC = "topics"
    VIEW = "views"
    CONFLATED = "conflated"
    FANOUT = "fanouts"


class ChangeEffect(StrEnum):
    """The effect of a difference on running services."""

    NEW = "new"
    LIVE = "live"
    RESTART = "needs a restart"
    REBUILD = "needs a rebuild"
    IMPOSSIBLE = "impossible"
    REMOVED = "removed"

    @property
    def is_taken(self) -> bool:
        """Whether running services take the new definition; if not, they keep the previous one."""
        return self in (ChangeEffect.NEW, ChangeEffect.LIVE, ChangeEffect.REMOVED)


FIELD_EFFECTS: Final[Mapping[Kind, Mapping[str, ChangeEffect]]] = {
    Kind.TOPIC: {
        "log": ChangeEffect.IMPOSSIBLE,
        "sow": ChangeEffect.IMPOSSIBLE,
        "key": ChangeEffect.REBUILD,
        "key_domain": ChangeEffect.REBUILD,
        "message_type": ChangeEffect.REBUILD,
        "framing": ChangeEffect.REBUILD,
        "partitions": ChangeEffect.REBUILD,
        "preprocessing": ChangeEffect.REBUILD,
        "enrichment": ChangeEffect.REBUILD,
        "documents": ChangeEffect.REBUILD,
        "durability": ChangeEffect.RESTART,
        "recovery_point": ChangeEffect.RESTART,
    },
    Kind.VIEW: dict.fromkeys(
        ("from", "join", "filter", "grouping", "projection", "having", "partitions"), ChangeEffect.REBUILD
    ),
    Kind.CONFLATED: dict.fromkeys(("from", "partitions"), ChangeEffect.REBUILD),
    Kind.FANOUT: {},
}
"""The fields that running services can't change. They take all others, by a new definition of the topic."""

WHY: Final[Mapping[ChangeEffect, str]] = {
    ChangeEffect.NEW: "",
    ChangeEffect.LIVE: "",
    ChangeEffect.REMOVED: "its subscriptions end; nothing in Kafka or on disk is deleted",
    ChangeEffect.RESTART: "restart the services",
    ChangeEffect.REBUILD: "stop the materializers and run sowline rebuild, or give it another name",
    ChangeEffect.IMPOSSIBLE: "define it under another name",
}
"""What an effect means for the user."""

STRICTEST_FIRST: Final = (
    ChangeEffect.IMPOSSIBLE,
    ChangeEffect.REBUILD,
    ChangeEffect.RESTART,
    ChangeEffect.LIVE,
)

OTHER_READERS: Final = (
    "its readers would keep records by the previous definition: give the fanout another name, or restore its topic,"
    " filter, select list, message type and schema, and the options delta and oof"
)

NOTHING: Final[Mapping[Any, str]] = MappingProxyType({})

Key = tuple[bool, str]
"""Identifies a definition: whether it is a fanout, and its name. Topics and views share their names."""


@dataclass(frozen=True)
class Described:
    """A definition without its content: enough to compare it."""

    kind: Kind
    name: str
    reads: tuple[str, ...]
    """The topics that it is computed or written from."""
    deciding: str
    """A hash of what decides its records. Of a fanout with `delta` or `oof`: of what its readers keep."""
    fields: Mapping[str, str]
    """A hash of each field that has another value than its default."""

    @property
    def key(self) -> Key:
        """What identifies it."""
        return self.kind is Kind.FANOUT, self.name

    def sent(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "kind": self.kind.value,
            "name": self.name,
            "reads": list(self.reads),
            "deciding": self.deciding,
            "fields": dict(self.fields),
        }

    @classmethod
    def received(cls, sent: Mapping[str, Any]) -> "Described":
        """Return the description that was sent; raise LookupError, TypeError or ValueError."""
        return cls(Kind(sent["kind"]), sent["name"], tuple(sent["reads"]), sent["deciding"], sent["fields"])


class DefinitionChange(NamedTuple):
    """The difference between two definitions of one name, and its effect."""

    kind: Kind
    name: str
    effect: ChangeEffect
    fields: tuple[str, ...] = ()
    """The fields that differ, by their names in the file."""
    why: str = ""
    """What the user has to do, or why it is not possible."""

    @property
    def key(self) -> Key:
        """What identifies the definition."""
        return self.kind is Kind.FANOUT, self.name

    def __str__(self) -> str:
        fields = f" ({', '.join(self.fields)})" if self.fields else ""
        why = f": {self.why}" if self.why else ""
        return f"{self.name}{fields} {self.effect}{why}"


class Followed(NamedTuple):
    """The topics that a service runs by after a file has changed, and all differences from before."""

    topics: Topics
    changes: tuple[DefinitionChange, ...]

    def topics_that_are(self, effect: ChangeEffect) -> list[str]:
        """Return the topics and views with this effect, without fanouts, which may have the same names."""
        return [one.name for one in self.changes if one.effect is effect and one.kind is not Kind.FANOUT]

    @property
    def refused(self) -> tuple[DefinitionChange, ...]:
        """The differences that are not in effect."""
        return tuple(change for change in self.changes if not change.effect.is_taken)


def describe(topics: Topics) -> tuple[Described, ...]:
    """Return the descriptions of all definitions, in the order of the file."""
    return tuple(_described(topics, kind, one) for kind, one in _definitions(topics))


def digest_of(described: Iterable[Described]) -> str:
    """Return a hash of definitions, in which their order does not count."""
    return _hash(sorted(json.dumps(one.sent(), sort_keys=True) for one in described))


def compare(
    old: Iterable[Described], new: Iterable[Described], refused: Mapping[Key, str] = NOTHING
) -> tuple[DefinitionChange, ...]:
    """Return the differences: those of the new definitions in their order, then the removed ones.

    `refused` has the reasons why definitions can't take effect that are known otherwise, for example from Kafka.
    """
    before, after = {one.key: one for one in old}, {one.key: one for one in new}
    logs = {one.fields["log"]: one.name for one in before.values() if one.kind is Kind.TOPIC}
    for key, one in after.items():
        # The records of the previous topic have keys that name it (test_a_topic_does_not_take_the_log_of_another).
        owner = logs.get(one.fields["log"], one.name) if one.kind is Kind.TOPIC else one.name
        if key not in before and owner != one.name:
            refused = {**refused, key: f"its log is that of {owner}: give it another log, or keep the name"}
    changes = [_change(before.get(key), one, refused.get(key)) for key, one in after.items()]
    removed = [
        DefinitionChange(one.kind, one.name, ChangeEffect.REMOVED, why=WHY[ChangeEffect.REMOVED])
        for key, one in before.items()
        if key not in after
    ]
    return _with_readers(before, after, [*(change for change in changes if change is not None), *removed])


def followed(old: Topics, new: Topics, refused: Mapping[Key, str] = NOTHING) -> Followed:
    """Return the topics that services which run by `old` run by after their file has become `new`.

    `refused` is that of `compare`.
    """
    changes = compare(describe(old), describe(new), refused)
    kept = {change.key for change in changes if not change.effect.is_taken}
    if not kept:
        return Followed(new, changes)
    before, after = _by_key(old), _by_key(new)
    given: dict[str, list[Any]] = {kind.value: [] for kind in Kind}
    for key in {**after, **before}:
        found = before.get(key) if key in kept else after.get(key)
        if found is not None:
            given[found[0].value].append(found[1])
    try:
        return Followed(Topics.model_validate(given), changes)
    except ValidationError as error:
        # For example, a new view that takes a Kafka topic of a definition that is kept.
        reasons = "; ".join(map(expected_and_got, error.errors()))
        why = f"together with the previous definitions that are kept: {reasons}"
        return Followed(
            old,
            tuple(
                one._replace(effect=ChangeEffect.IMPOSSIBLE, why=why) if one.effect.is_taken else one
                for one in changes
            ),
        )


def _by_key(topics: Topics) -> dict[Key, tuple[Kind, Any]]:
    return {(kind is Kind.FANOUT, one.name): (kind, one) for kind, one in _definitions(topics)}


def _definitions(topics: Topics) -> list[tuple[Kind, Any]]:
    return [
        *((Kind.TOPIC, one) for one in topics.declared),
        *((Kind.VIEW, one) for one in topics.views),
        *((Kind.CONFLATED, one) for one in topics.conflated),
        *((Kind.FANOUT, one) for one in topics.fanouts),
    ]


def _described(topics: Topics, kind: Kind, definition: Any) -> Described:
    if kind is Kind.FANOUT:
        read = (definition.topic,)
        return Described(kind, definition.name, read, definition.fixed_digest, _fields(definition))
    topic = topics.named(definition.name)
    reads = () if topic.view is None else tuple(topic.view.read_topics)
    return Described(kind, definition.name, reads, topic.fixed_digest, _fields(definition))


def _fields(definition: BaseModel) -> dict[str, str]:
    """Return a hash of each value that is not its field's default, so that a default may be written out."""
    found = {}
    for attribute, field in type(definition).model_fields.items():
        value = getattr(definition, attribute)
        if attribute != "name" and value != field.get_default(call_default_factory=True):
            found[field.alias or attribute] = _hash(_plain(value))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, tuple | list) else value


def _hash(value: Any) -> str:
    return blake2b(json.dumps(value, sort_keys=True, default=str).encode(), digest_size=8).hexdigest()


def _change(before: Described | None, after: Described, refused: str | None) -> DefinitionChange | None:
    """Return the difference of two definitions with one name; None if there is none."""
    if refused is not None and before != after:
        return DefinitionChange(after.kind, after.name, ChangeEffect.IMPOSSIBLE, why=refused)
    if before is None:
        return DefinitionChange(after.kind, after.name, ChangeEffect.NEW)
    if before.kind is not after.kind:
        why = f"it is defined under {before.kind}: give it another name"
        return DefinitionChange(after.kind, after.name, ChangeEffect.IMPOSSIBLE, why=why)
    names = before.fields.keys() | after.fields.keys()
    fields = tuple(sorted(name for name in names if before.fields.get(name) != after.fields.get(name)))
    is_other = before.deciding != after.deciding
    if after.kind is Kind.FANOUT:
        return _fanout_change(before, after, fields)
    if not fields and not is_other:
        return None
    effects = FIELD_EFFECTS[after.kind]
    found = {effects.get(name, ChangeEffect.LIVE) for name in fields}
    # A field may be written in another way and mean the same: the hash of what decides is made of the meaning. And
    # that may differ without the file: by another version of a key generator.
    found.discard(ChangeEffect.REBUILD)
    if is_other:
        found.add(ChangeEffect.REBUILD)
    effect = next(one for one in STRICTEST_FIRST if one in found or one is ChangeEffect.LIVE)
    # The field that decides comes first: an error names its line.
    fields = tuple(
        sorted(fields, key=lambda name: STRICTEST_FIRST.index(effects.get(name, ChangeEffect.LIVE)))
    )
    return DefinitionChange(after.kind, after.name, effect, fields, WHY[effect])


def _fanout_change(before: Described, after: Described, fields: tuple[str, ...]) -> DefinitionChange | None:
    is_other = before.deciding != after.deciding
    # Version 0.1 described a fanout with `oof` without a hash: the same file is no change of it.
    if not fields and not (is_other and before.deciding):
        return None
    # What was written has the positions of the topic that was read, and is of its records: with those of another one,
    # a runner would take the new topic's first changes for repeats. Readers that begin to keep records may lack some
    # that an earlier filter left out (test_a_fanout_changes_unless_its_readers_keep_records).
    if before.reads != after.reads or (is_other and after.deciding):
        return DefinitionChange(after.kind, after.name, ChangeEffect.IMPOSSIBLE, fields, OTHER_READERS)
    # A fanout of whole records without `oof` may change: its readers get the next ones by the new definition.
    return DefinitionChange(after.kind, after.name, ChangeEffect.LIVE, fields)


def _with_readers(
    before: Mapping[Key, Described], after: Mapping[Key, Described], changes: list[DefinitionChange]
) -> tuple[DefinitionChange, ...]:
    """Refuse, too, what reads a definition that is refused, and the removal of what a kept definition reads."""
    found = {change.key: change for change in changes}
    is_done = False
    while not is_done:
        is_done = True
        refused = {change.name for key, change in found.items() if not change.effect.is_taken and not key[0]}
        kept_reads = {
            name: change.name
            for key, change in found.items()
            if not change.effect.is_taken and key in before
            for name in before[key].reads
        }
        for key, change in found.items():
            if not change.effect.is_taken:
                continue
            if change.effect is ChangeEffect.REMOVED:
                if key[0] or change.name not in kept_reads:
                    continue
                why = f"{kept_reads[change.name]}, whose change is refused, reads it"
            else:
                read = next((name for name in after[key].reads if name in refused), None)
                if read is None:
                    continue
                why = f"it reads {read}, whose change is refused"
            found[key] = change._replace(effect=ChangeEffect.IMPOSSIBLE, why=why)
            is_done = False
    return tuple(found.values())


def located(change: DefinitionChange, topics: Topics) -> tuple[str | int, ...]:
    """Return where a change is in the file of its topics: the list, the number, and the first field that differs."""
    named = [one.name for kind, one in _definitions(topics) if kind is change.kind]
    if change.name not in named:
        return ()
    return (change.kind.value, named.index(change.name), *change.fields[:1])
