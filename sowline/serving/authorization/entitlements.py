"""Entitlements: which topics a user may read and write, which of their records, and which of their fields.

A role lists entitlements. If several entitlements name a topic, the first one decides: roles count in the order in
which they are declared, and their entitlements in the order in which they are listed. A topic that no entitlement
names may not be read, or not be written. No I/O.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from typing import Annotated, ParamSpec, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from sowline.config.plain_numbers import PlainNumbers
from sowline.config.topic_fields import topic_name
from sowline.errors import SowlineError
from sowline.language.filter import ALL, Filter, compile_filter, require_deterministic
from sowline.language.filter.tree import Call, Meets, Node, conjunction, disjunction, paths_of, walk
from sowline.model.path import Path
from sowline.model.select import Select, parse_select
from sowline.serving.authorization.topic_patterns import (
    TOPIC_CHARS_MAX,
    excerpt,
    is_pattern,
    meant,
    names,
)

NOT_ENTITLED = "not entitled"

_OF_WHOLE = ("MESSAGE_SIZE",)
"""Functions whose value depends on all fields of a record."""

P = ParamSpec("P")
T = TypeVar("T")


class _EntitlementModel(PlainNumbers, BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _pattern(text: str) -> str:
    _read(names, text)
    if not is_pattern(text):
        try:
            topic_name(text)
        except ValueError as error:
            raise ValueError(f"{error}; a pattern begins with ^") from None
    return text


def _content_filter(text: str) -> str:
    filter = _read(compile_filter, text)
    _read(require_deterministic, filter, "the filter of an entitlement")
    if filter.needs_about:
        asked = ", ".join(node.name for node in walk(filter.tree) if isinstance(node, Call)) or "a condition"
        raise ValueError(f"expected only fields of the record in the filter of an entitlement, got {asked}")
    return text


def _select_list(text: str) -> str:
    if text:
        _read(parse_select, text)
    return text


def _read(read: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    try:
        return read(*given, **named)
    except SowlineError as error:
        raise ValueError(error.message) from None


_Topics = Annotated[
    str,
    Field(min_length=1, max_length=1000, description="the name of a topic, or ^ followed by a pattern"),
    AfterValidator(_pattern),
]
_Filter = Annotated[str, AfterValidator(_content_filter)]


class ReadEntitlement(_EntitlementModel):
    """The right to read topics: their records that match the filter, and the selected fields of these."""

    topics: _Topics
    filter: _Filter = Field(default="", description="which records; all of them if empty")
    select: Annotated[str, AfterValidator(_select_list)] = Field(
        default="", description="which fields of the records; all of them if empty"
    )


class WriteEntitlement(_EntitlementModel):
    """The right to write topics: a record must match the filter before and after the write."""

    topics: _Topics
    filter: _Filter = Field(
        default="", description="what a record must match, before and after; anything if empty"
    )


class Role(_EntitlementModel):
    """A role: the rights of its users.

    `admin` is the right to see the connected clients and their requests, and the Kafka topics of each topic that the
    user may read. `gateway` is the right to act with the rights of other users
    (`sowline.serving.authorization.delegation`). `agent_writes` is the right to write through the tools for agents
    what `write` names.
    """

    read: tuple[ReadEntitlement, ...] = Field(default=(), description="what its users may read")
    write: tuple[WriteEntitlement, ...] = Field(default=(), description="what its users may write")
    admin: bool = Field(
        default=False, description="whether its users may see clients, their requests and Kafka topics"
    )
    gateway: bool = Field(default=False, description="whether it may act with the rights of other users")
    agent_writes: bool = Field(default=False, description="whether agents may write what `write` allows")


@dataclass(frozen=True, slots=True)
class Entitlement:
    """The right to read, or write, some topics: the records that match, and their selected fields."""

    topics: str
    filter: Filter = ALL
    select: Select | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it covers all records of its topics and all their fields."""
        return self.filter == ALL and self.select is None


class Entitlements:
    """The rights of a user to read, or to write; `to` is the verb for messages. Immutable."""

    __slots__ = ("_listed", "_named", "_to")

    def __init__(self, to: str, listed: Iterable[Entitlement] = ()) -> None:
        self._to = to
        self._listed = tuple(listed)
        self._named = [(names(one.topics), one) for one in self._listed]

    def of(self, topic: str) -> Entitlement:
        """Return the entitlement to a topic; raise `not entitled`, whether the topic exists or not."""
        for is_named, entitlement in self._named:
            if is_named(topic):
                return entitlement
        raise SowlineError(
            NOT_ENTITLED,
            f"expected a topic that you may {self._to} ({self.topics or 'none'}), got {excerpt(topic)!r}",
        )

    def require_whole(self, topic: str, why: str) -> None:
        """Raise `not entitled`, with the reason, unless all records and fields of a topic are covered."""
        if topic not in self or not self.of(topic).is_whole:
            raise SowlineError(
                NOT_ENTITLED, f"expected the right to {self._to} all of {topic}, got less: {why}"
            )

    def __bool__(self) -> bool:
        return bool(self._listed)

    def __iter__(self) -> Iterator[Entitlement]:
        return iter(self._listed)

    def __contains__(self, topic: str) -> bool:
        return any(is_named(topic) for is_named, _ in self._named)

    @property
    def topics(self) -> str:
        """The names and patterns of the topics."""
        return ", ".join(one.topics for one in self._listed)

    @property
    def text(self) -> str:
        """All entitlements as one text, for comparison."""
        return repr(
            [
                (one.topics, one.filter.text, "" if one.select is None else one.select.text)
                for one in self._listed
            ]
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entitlements) and (self._to, self._listed) == (other._to, other._listed)

    def __hash__(self) -> int:
        return hash((self._to, self._listed))

    def __repr__(self) -> str:
        return f"Entitlements({self._to!r}, {self.text})"


def to_read(*listed: Entitlement) -> Entitlements:
    """Return these entitlements as rights to read."""
    return Entitlements("read", listed)


def to_write(*listed: Entitlement) -> Entitlements:
    """Return these entitlements as rights to write."""
    return Entitlements("write to", listed)


@dataclass(frozen=True)
class Rights:
    """The rights of a user. Two users with the same `digest` have the same rights."""

    read: Entitlements = field(default_factory=to_read)
    write: Entitlements = field(default_factory=to_write)
    is_admin: bool = False
    is_gateway: bool = False
    allows_agent_writes: bool = False

    @cached_property
    def digest(self) -> str:
        """A hash of the rights."""
        # A right that few roles have is left out of the others. Services of the version before give these the same
        # digest, and a client that reconnects to one of them keeps its records
        # (test_digests_are_those_of_the_version_before).
        more = (True,) if self.allows_agent_writes else ()
        text = repr((self.read.text, self.write.text, self.is_admin, self.is_gateway, *more))
        return blake2b(text.encode(), digest_size=8).hexdigest()


EVERYTHING = Rights(to_read(Entitlement("^.*")), to_write(Entitlement("^.*")), is_admin=True, is_gateway=True)
"""The rights of all users if no access file is configured. Only a role allows agents to write."""


def rights_of(roles: Mapping[str, Role], held: Collection[str]) -> Rights:
    """Return the rights of a user with these roles; roles that are not declared are ignored."""
    # In the order of the file: a token lists roles in any order (test_the_first_that_names_a_topic_decides).
    mine = [role for name, role in roles.items() if name in held]
    read = to_read(
        *(
            Entitlement(
                one.topics, compile_filter(one.filter), parse_select(one.select) if one.select else None
            )
            for role in mine
            for one in role.read
        )
    )
    write = to_write(
        *(Entitlement(one.topics, compile_filter(one.filter)) for role in mine for one in role.write)
    )
    return Rights(
        read,
        write,
        any(role.admin for role in mine),
        any(role.gateway for role in mine),
        any(role.agent_writes for role in mine),
    )


def chosen_topics(name: str, topics: Collection[str], entitlements: Entitlements) -> list[str]:
    """Return the topic of that name; if the name starts with `^`, all topics whose whole names match the pattern.

    Raise `not entitled` if the entitlements do not name one of the topics, whether it exists or not. Also raise
    `invalid topic` and `bad regex topic`.
    """
    if len(name) > TOPIC_CHARS_MAX:
        raise SowlineError(
            "bad regex topic" if is_pattern(name) else "invalid topic",
            f"expected a topic of at most {TOPIC_CHARS_MAX} characters, got {len(name)}",
        )
    # Before the topic is looked up: the error must not reveal whether it exists
    # (test_what_none_names_is_refused).
    if not is_pattern(name) or not entitlements:
        entitlements.of(name)
    chosen = meant(name, topics)
    # Only the topics of this user: an error must not reveal the names of others
    # (test_a_request_for_other_topics_is_refused).
    mine = ", ".join(each for each in topics if each in entitlements) or "none"
    if not chosen:
        raise SowlineError("invalid topic", f"expected a topic ({mine}), got {excerpt(name)!r}")
    if not all(each in entitlements for each in chosen):
        raise SowlineError(
            NOT_ENTITLED,
            f"expected a pattern of topics that you may read ({mine}), got {excerpt(name)}",
        )
    return chosen


def chosen_topic(name: str, topics: Collection[str], entitlements: Entitlements) -> str:
    """Return the topic of that name; raise `regex topic not supported`, and as `chosen_topics` does."""
    if is_pattern(name):
        raise SowlineError(
            "regex topic not supported", f"expected the name of one topic, got the pattern {excerpt(name)}"
        )
    return chosen_topics(name, topics, entitlements)[0]


def together(entitlements: Entitlements, topics: Sequence[str]) -> Entitlement:
    """Return one entitlement to several topics of a request.

    The filter of each topic applies to the records of that topic. Raise `not entitled` if a topic may not be read, or
    if the readable fields are not the same in all topics.
    """
    each = {topic: entitlements.of(topic) for topic in topics}
    # A filter can hold for one topic only, but all records of an answer are selected in the same way
    # (test_several_topics_in_one_request).
    first, *others = each.values()
    if all(one.select == first.select for one in others):
        if all(one.filter == first.filter for one in others):
            return first
        return Entitlement(
            first.topics, Filter(disjunction(_of_topic(*one) for one in each.items())), first.select
        )
    raise SowlineError(
        NOT_ENTITLED,
        f"expected topics of which you may read the same fields, got {', '.join(topics)}; read each separately",
    )


def _of_topic(name: str, entitlement: Entitlement) -> Node:
    is_it = compile_filter(f"TOPIC_NAME() = '{name}'").tree
    return is_it if entitlement.filter == ALL else conjunction([is_it, entitlement.filter.tree])


def both(one: Filter, other: Filter) -> Filter:
    """Return a filter that matches what both filters match."""
    if other in (ALL, one):
        return one
    return other if one == ALL else Filter(conjunction([one.tree, other.tree]))


def check_fields(
    entitlement: Entitlement, filter: Filter, paths: Iterable[Path] = (), computed: Iterable[Node] = ()
) -> None:
    """Raise `not entitled` if a request uses fields that the user may not read: the answer would reveal their values.

    `paths` are the fields that it sorts and groups by, and `computed` the expressions of its projection.
    """
    if entitlement.select is None:
        return
    trees = [filter.tree, *computed]
    if any(_is_of_whole(node) for tree in trees for node in walk(tree)):
        raise SowlineError(
            NOT_ENTITLED,
            f"expected only fields that you may read ({entitlement.select.text}), got a condition or MESSAGE_SIZE(),"
            " which reads the whole record; filter by these fields",
        )
    asked = {*paths, *chain.from_iterable(map(paths_of, trees))}
    if hidden := sorted(str(path) for path in asked if not entitlement.select.keeps(path)):
        raise SowlineError(
            NOT_ENTITLED,
            f"expected only fields that you may read ({entitlement.select.text}), got {hidden[0]}",
        )


def _is_of_whole(node: Node) -> bool:
    return isinstance(node, Meets) or (isinstance(node, Call) and node.name in _OF_WHOLE)
