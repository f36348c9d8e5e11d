"""The options of a topic of message type `fix` or `nvfix`, and the rules for fields that follow from them."""

import re
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

import msgspec

from sowline.codecs.errors import bad_message, bad_schema
from sowline.codecs.schema import FIX, Schema
from sowline.codecs.schemaless import excerpt
from sowline.errors import SowlineError

BEGIN_STRING: Final = "8"
BODY_LENGTH: Final = "9"
CHECK_SUM: Final = "10"
MSG_TYPE: Final = "35"

SOH: Final = "\x01"
LEVELS_MAX: Final = 20
"""How deep groups may nest; those of the standard nest 6 levels deep."""

_TAG: Final = re.compile(r"[1-9][0-9]{0,8}")
_FRAMING: Final = (BEGIN_STRING, BODY_LENGTH, CHECK_SUM, MSG_TYPE)
_KNOWN_MAX: Final = 10_000
_KNOWN_CHARS_MAX: Final = 100

GroupMembers = dict[str, frozenset[str]]
"""The members of each group, by the name of its count."""


class _FixOptionsText(msgspec.Struct, forbid_unknown_fields=True):
    names: dict[str, str] = {}
    groups: dict[str, list[int | str]] = {}
    data: dict[str, int | str | None] = {}
    separator: str = SOH


class FixOptions:
    """A codec's knowledge of its fields.

    A field has a tag, as in messages, and a name, as in JSON. They differ only for `fix` with `names`.
    """

    def __init__(self, reader: Schema) -> None:
        """Read the options; raise `bad schema`."""
        try:
            options = msgspec.json.decode(reader.text, type=_FixOptionsText)
        except msgspec.DecodeError as error:
            raise bad_schema(
                f"expected the options of {reader.type} as a JSON object, but: {error}"
            ) from error
        self.is_fix = reader.type == FIX
        self.separator = _checked_separator(options.separator)
        self.names = self._checked_names(options.names)
        self.tags = {name: tag for tag, name in self.names.items()}
        self.data = self._checked_data(options.data)
        self.lengths = {data: length for length, data in self.data.items()}
        self.tables = self._tables_of(options.groups)
        """The groups by MsgType, for each MsgType that has its own; the groups of all others are under ``."""
        self._known: set[str] = set()

    def name_of(self, tag: str) -> str:
        """Return the name of a field in JSON."""
        return self.names.get(tag, tag)

    def tag_of(self, name: str) -> str:
        """Return the tag of a field in messages. Both a name and a tag are accepted. Raise `bad message`."""
        tag = self.tags.get(name, name)
        self.check_tags((tag,))
        return tag

    def is_known(self, tags: Iterable[str]) -> bool:
        """Return whether all of these names were checked before."""
        return self._known.issuperset(tags)

    def check_tags(self, tags: tuple[str, ...] | list[str]) -> None:
        """Raise `bad message` unless each is a tag that a field of a message can have."""
        if self._known.issuperset(tags):
            return
        for tag in tags:
            self._check_tag(tag)
        # Both bounds limit memory: messages may have any number of names, of any length.
        if len(self._known) + len(tags) <= _KNOWN_MAX:
            self._known.update(tag for tag in tags if len(tag) <= _KNOWN_CHARS_MAX)

    def _check_tag(self, tag: str) -> None:
        if self.is_fix:
            if _TAG.fullmatch(tag) is None:
                dictionary = " or a name of a field" if self.names else ""
                raise bad_message(f"expected a tag from 1 to 999999999{dictionary}, got {excerpt(tag)}")
        elif not tag or "=" in tag or self.separator in tag:
            raise bad_message(f"expected a name without = and the separator, not empty, got {excerpt(tag)}")

    def groups(self, message_type: Any) -> GroupMembers:
        """Return the groups of messages with this MsgType, by name."""
        table = self.tables.get(message_type) if isinstance(message_type, str) else None
        return self.tables[""] if table is None else table

    @cached_property
    def all_groups(self) -> dict[str, dict[str, frozenset[str]]]:
        """The members of each group by its name, and by MsgType; the MsgType `` stands for all other messages."""
        found: dict[str, dict[str, frozenset[str]]] = {}
        for message_type, table in self.tables.items():
            for name, members in table.items():
                found.setdefault(name, {})[message_type] = members
        return found

    @cached_property
    def message_type_name(self) -> str:
        """The name of MsgType."""
        return self.name_of(MSG_TYPE)

    def _checked_names(self, names: dict[str, str]) -> dict[str, str]:
        if names and not self.is_fix:
            raise bad_schema("expected no names for nvfix: its messages have them")
        for tag, name in names.items():
            # A name of digits could not be told from a tag: JSON may have either
            # (test_json_has_the_names_of_a_dictionary).
            if _TAG.fullmatch(tag) is None or not name or name.isdecimal():
                raise bad_schema(f"expected a name for each tag, got {excerpt(name)} for {excerpt(tag)}")
        if len(set(names.values())) < len(names):
            twice = next(name for name in names.values() if list(names.values()).count(name) > 1)
            raise bad_schema(f"expected another name for each tag, got {excerpt(twice)} twice")
        return names

    def _checked_data(self, given: Mapping[str, int | str | None]) -> dict[str, str]:
        standard: dict[str, str] = {str(tag): str(data) for tag, data in self._standard("data").items()}
        stated = {length: None if data is None else self._option_tag(data) for length, data in given.items()}
        for length in given:
            self._option_tag(length)
        merged = {**standard, **stated}
        pairs = {length: data for length, data in merged.items() if data is not None}
        if len({*pairs, *pairs.values()}) < 2 * len(pairs):
            raise bad_schema(
                "expected in data another length and another data field in each pair, got one twice"
            )
        return pairs

    def _standard(self, part: str) -> dict[str, Any]:
        found: dict[str, Any] = _standard()[part] if self.is_fix else {}
        return found

    def _option_tag(self, tag: int | str) -> str:
        """Return a tag of the options as text; raise `bad schema` unless a field of a group can have it."""
        text = str(tag)
        try:
            self._check_tag(text)
        except SowlineError as error:
            raise bad_schema(error.message) from error
        if self.is_fix and text in _FRAMING:
            raise bad_schema(f"expected no {text} in groups and data: it frames messages")
        return text

    def _tables_of(self, given: dict[str, list[int | str]]) -> dict[str, GroupMembers]:
        """Return the groups by MsgType, for each MsgType that has its own; the groups of all others are under ``."""
        stated = {self._group_key(key): members for key, members in given.items()}
        overridden = {count for _, count in stated}
        merged: dict[tuple[str, str], list[int | str]] = {}
        for key, members in self._standard("groups").items():
            message_type, count = self._group_key(key)
            if count not in overridden:
                merged[message_type, count] = members
        merged.update(stated)
        tables: dict[str, GroupMembers] = {"": {}}
        # Sorted, the groups of all messages come first: the table of a MsgType begins as a copy of theirs.
        for (message_type, count), members in sorted(merged.items()):
            table = tables.setdefault(message_type, dict(tables[""]))
            name = self.name_of(count)
            table.pop(name, None)
            # Without members, the count is an ordinary field (test_groups_may_be_named).
            if members:
                table[name] = frozenset(self.name_of(self._option_tag(member)) for member in members)
        for table in tables.values():
            _check_levels(table)
        return tables

    def _group_key(self, key: str) -> tuple[str, str]:
        """Return the MsgType of a key of `groups`, which may be empty, and its count tag."""
        message_type, _, count = key.rpartition(":") if self.is_fix else ("", "", key)
        count = self._option_tag(count)
        if count in self.data or count in self.lengths:
            raise bad_schema(f"expected the count of a group, got {excerpt(count)}, which is in data")
        return message_type, count


def _checked_separator(separator: str) -> str:
    if len(separator) != 1 or not separator.isascii() or separator.isalnum() or separator == "=":
        raise bad_schema(
            f"expected as separator one ASCII character that is no letter, digit or =, got {excerpt(separator)}"
        )
    return separator


def _check_levels(table: GroupMembers) -> None:
    """Raise `bad schema` if groups contain themselves, or nest too deep."""
    # Messages are read and written by recursion through their groups.
    level = set(table)
    for _ in range(LEVELS_MAX):
        level = {inner for outer in level for inner in table[outer] if inner in table}
        if not level:
            return
    raise bad_schema(
        f"expected groups that nest at most {LEVELS_MAX} levels deep, got more, or one within itself, such as"
        f" {excerpt(min(level))}"
    )


@cache
def _standard() -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(Path(__file__).with_name("standard.json").read_bytes())
    return found
