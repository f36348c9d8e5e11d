"""Reads data dictionaries in the XML format of QuickFIX: the names of fields and values, groups and data fields."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from sowline.codecs.errors import bad_schema
from sowline.codecs.schemaless import excerpt

_LEVELS_MAX: Final = 50
_LENGTH_SUFFIXES: Final = ("Len", "Length")
_DATA_TYPES: Final = ("DATA", "XMLDATA")

_Members = dict[int, None]
"""An ordered set of tags."""


def read_dictionary(xml: str, *more: str) -> dict[str, Any]:
    """Return `names`, `groups` and `data`, in the form of a topic's options.

    Several dictionaries count as one, such as those of FIXT 1.1 and FIX 5.0. The last name of a tag counts.
    A group's members come from all messages. That can be wrong for some messages: a field that comes
    after the group in one message may be a member in another. Then `groups` also has a key with the MsgType, like
    `D:711`.
    Raise `bad schema` if a text is not a data dictionary.
    """
    names: dict[str, str] = {}
    data: dict[str, int] = {}
    uses = _GroupUses()
    for text in (xml, *more):
        dictionary = _Dictionary(text)
        names.update((str(number), name) for name, number in dictionary.numbers.items())
        data.update(dictionary.data())
        for message_type, nodes in dictionary.messages():
            uses.add(message_type, dictionary, nodes)
    return {"names": names, "groups": uses.groups(), "data": data}


def read_value_names(*texts: str) -> dict[str, dict[str, str]]:
    """Return by tag what the values of its field mean, such as BUY; of several dictionaries, the later counts.

    No message depends on these names, so the options of a topic do not have them.
    """
    found: dict[str, dict[str, str]] = {}
    for text in texts:
        for number, named in _Dictionary(text).values():
            if named:
                found.setdefault(str(number), {}).update(named)
    return found


class _Dictionary:
    """One parsed dictionary."""

    def __init__(self, text: str) -> None:
        try:
            self._root = ElementTree.fromstring(text)  # noqa: S314 - the operator's own file
        except (ElementTree.ParseError, ValueError) as error:
            raise bad_schema(f"expected a QuickFIX data dictionary in XML, but: {error}") from error
        self._fields = self._section("fields").findall("field")
        self.numbers = {_attribute(field, "name"): _number(field) for field in self._fields}
        self._components = {
            _attribute(one, "name"): one for one in self._section("components", is_needed=False)
        }

    def _section(self, name: str, is_needed: bool = True) -> Element:
        found = self._root.find(name)
        if found is None and is_needed:
            raise bad_schema(f"expected a QuickFIX data dictionary with the element {name}, got none")
        return Element(name) if found is None else found

    def messages(self) -> Iterator[tuple[str, list[Element]]]:
        """Yield the MsgType and the parts of each message; header and trailer as a message without a MsgType."""
        # Their groups, such as NoHops, are in every message (test_several_dictionaries_count_as_one).
        yield "", [self._section("header", is_needed=False)]
        yield "", [self._section("trailer", is_needed=False)]
        for message in self._section("messages"):
            yield _attribute(message, "msgtype"), [message]

    def number(self, element: Element) -> int:
        """Return the tag of a field or group of a message."""
        name = _attribute(element, "name")
        if name not in self.numbers:
            raise bad_schema(
                f"expected the field {excerpt(name)} among the fields of the data dictionary, got none"
            )
        return self.numbers[name]

    def parts(self, element: Element, level: int = 0) -> Iterator[Element]:
        """Yield the fields and groups of a message, a group or a component, including those of its components."""
        if level > _LEVELS_MAX:
            raise bad_schema(
                f"expected at most {_LEVELS_MAX} levels of components in a data dictionary, got more"
            )
        for part in element:
            # Components may contain each other, even in a circle: hence the limit above.
            if part.tag != "component":
                yield part
                continue
            name = _attribute(part, "name")
            if name not in self._components:
                raise bad_schema(f"expected the component {excerpt(name)} in the data dictionary, got none")
            yield from self.parts(self._components[name], level + 1)

    def data(self) -> Iterator[tuple[str, int]]:
        """Yield the tag of each length field with the tag of its data field."""
        before: Element | None = None
        for field in self._fields:
            if field.get("type") in _DATA_TYPES:
                length = self._length_of(field, before)
                if length is not None:
                    yield str(length), _number(field)
            before = field

    def values(self) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield the tag of each field, with the descriptions of its values."""
        for field in self._fields:
            described = ((one.get("enum"), one.get("description")) for one in field.iter("value"))
            yield _number(field), {value: name for value, name in described if value and name}

    def _length_of(self, field: Element, before: Element | None) -> int | None:
        name = _attribute(field, "name")
        stated = field.get("lenField")
        if stated is not None:
            return int(stated) if stated.isdecimal() else self.numbers.get(stated)
        # Dictionaries differ: some state the length of a data field, others show it by its name or its position
        # (test_a_dictionary_has_names_groups_and_data).
        for suffix in _LENGTH_SUFFIXES:
            if name + suffix in self.numbers:
                return self.numbers[name + suffix]
        is_length = before is not None and before.get("type") == "LENGTH"
        return _number(before) if before is not None and is_length else None


class _GroupUses:
    """The members of groups, collected from messages."""

    def __init__(self) -> None:
        self._members: defaultdict[int, defaultdict[str, _Members]] = defaultdict(lambda: defaultdict(dict))
        self._after: defaultdict[int, set[int]] = defaultdict(set)

    def add(self, message_type: str, dictionary: _Dictionary, parts: list[Element]) -> None:
        """Add the groups of a message."""
        for part in parts:
            self._add(message_type, dictionary, part, frozenset(), 0)

    def _add(
        self, message_type: str, dictionary: _Dictionary, element: Element, outer: frozenset[int], level: int
    ) -> list[int]:
        """Return the tags of an element's fields; `outer` are those that come after it."""
        if level > _LEVELS_MAX:
            raise bad_schema(
                f"expected at most {_LEVELS_MAX} levels of groups in a data dictionary, got more"
            )
        parts = list(dictionary.parts(element))
        numbers = [dictionary.number(part) for part in parts]
        for position, (part, number) in enumerate(zip(parts, numbers, strict=True)):
            if part.tag == "group":
                after = outer.union(numbers[position + 1 :])
                members = self._add(message_type, dictionary, part, after, level + 1)
                self._members[number][message_type].update(dict.fromkeys(members))
                self._after[number] |= after
        return numbers

    def groups(self) -> dict[str, list[int]]:
        """Return the members of each group by its count tag, and the exceptions by MsgType and count tag."""
        found: dict[str, list[int]] = {}
        for count_tag, by_type in sorted(self._members.items()):
            union: _Members = {}
            for members in by_type.values():
                union.update(members)
            # A field that follows the group in some message would be read as part of its last entry
            # (test_the_members_of_a_group_depend_on_the_message_type).
            common = [tag for tag in union if tag not in self._after[count_tag]]
            found[str(count_tag)] = common
            for message_type, members in sorted(by_type.items()):
                if message_type and not members.keys() <= set(common):
                    found[f"{message_type}:{count_tag}"] = list(members)
        return found


def _attribute(element: Element, name: str) -> str:
    value = element.get(name)
    if not value:
        raise bad_schema(f"expected the attribute {name} at <{element.tag}> of the data dictionary, got none")
    return value


def _number(field: Element) -> int:
    text = _attribute(field, "number")
    if not text.isdecimal() or len(text) > 9:
        raise bad_schema(f"expected a field's number in the data dictionary, got {excerpt(text)}")
    return int(text)
