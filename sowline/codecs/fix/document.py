"""The JSON of a message: from its fields, and back."""

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from sowline.codecs.errors import bad_message
from sowline.codecs.fix.fields import Fields, count_of
from sowline.codecs.fix.options import GroupMembers
from sowline.codecs.schemaless import excerpt

BODY: Final = 1
"""The rank of a field of the body."""

Document = dict[str, Any]
"""The fields of a message, or of an entry of a group, by name.

Each is a `FieldValue`, the entries of a group, or the values of a repeated name.
"""


def document_of(names: list[str], values: list[Any], groups: GroupMembers) -> Document:
    """Return the JSON of a message with these fields."""
    if groups.keys().isdisjoint(names):
        document = dict(zip(names, values, strict=True))
        # A name that comes twice has lost a value here (test_a_tag_that_comes_several_times_is_an_array).
        if len(document) == len(names):
            return document
    return _GroupParser(names, values, groups).document()


class _GroupParser:
    """Goes once over the fields of a message."""

    def __init__(self, names: list[str], values: list[Any], groups: GroupMembers) -> None:
        self._names = names
        self._values = values
        self._groups = groups
        self._at = 0

    def document(self) -> Document:
        """Return the fields of the whole message."""
        found: Document = {}
        is_arranged = True
        while self._at < len(self._names):
            name = self._names[self._at]
            if name not in found:
                found[name] = self._value(name)
            elif name in self._groups:
                raise bad_message(f"expected the group {name} once, got it twice")
            else:
                _add(found, name, self._value(name))
                is_arranged = False
        # A repeated field joins the one before it. A field that it separated from a group would be read as part of
        # that group once the record is written (test_fields_put_into_a_message_are_read_or_refused).
        return found if is_arranged else arranged(found, self._groups, {})

    def _value(self, name: str) -> Any:
        self._at += 1
        value = self._values[self._at - 1]
        return self._entries(name, count_of(name, value)) if name in self._groups else value

    def _entries(self, count_name: str, count: int) -> list[Document]:
        members = self._groups[count_name]
        start = self._at
        delimiter = self._names[start] if start < len(self._names) else ""
        entries: list[Document] = []
        while delimiter in members and self._at < len(self._names) and self._names[self._at] == delimiter:
            entries.append(self._entry(members))
        if len(entries) != count:
            next_name = self._names[self._at] if self._at < len(self._names) else "the end"
            raise bad_message(
                f"expected {count} entries in the group {count_name}, the value of its count, got {len(entries)}"
                f" before {next_name}: name the members of the group in the topic's groups, or use a dictionary"
            )
        return entries

    def _entry(self, members: frozenset[str]) -> Document:
        entry: Document = {}
        while self._at < len(self._names):
            name = self._names[self._at]
            # A field that the entry has already begins the next entry, or follows the group
            # (test_groups_of_the_standard_are_arrays).
            if name not in members or name in entry:
                break
            entry[name] = self._value(name)
        return entry


def _add(found: Document, name: str, value: Any) -> None:
    before = found[name]
    if isinstance(before, list):
        before.append(value)
    else:
        found[name] = [before, value]


def fields_of(document: Document, groups: GroupMembers) -> Fields:
    """Return the names and values of a document, in their order."""
    if groups.keys().isdisjoint(document) and list not in set(map(type, document.values())):
        return list(document), list(document.values())
    names: list[str] = []
    values: list[Any] = []
    _collect(document, groups, names, values)
    return names, values


def _collect(document: Document, groups: GroupMembers, names: list[str], values: list[Any]) -> None:
    for name, value in document.items():
        if name in groups:
            names.append(name)
            values.append(str(len(value)))
            for entry in value:
                _collect(entry, groups, names, values)
        elif isinstance(value, list):
            names.extend([name] * len(value))
            values.extend(value)
        else:
            names.append(name)
            values.append(value)


def arranged(document: Document, groups: GroupMembers, ranks: Mapping[str, int]) -> Document:
    """Return a document in the order in which its fields are written.

    Fields with a lower rank come first; the default rank is `BODY`. A field that would be read as part of
    the group before it comes before that group.
    """
    names = sorted(document, key=lambda name: ranks.get(name, BODY)) if ranks else list(document)
    if not groups.keys().isdisjoint(document):
        names = _parted(names, document, groups)
    return {name: document[name] for name in names}


def is_in_order(document: Document, header: frozenset[str], trailer: frozenset[str]) -> bool:
    """Return whether the fields of the header come first, and no field is of the trailer."""
    count = len(header.intersection(document))
    return header.issuperset(islice(document, count)) and trailer.isdisjoint(document)


def _parted(names: list[str], document: Document, groups: GroupMembers) -> list[str]:
    found: list[str] = []
    for name in names:
        passed: list[str] = []
        while found and _takes(found[-1], document, groups, name):
            passed.append(found.pop())
        found.append(name)
        found.extend(reversed(passed))
    return found


def _takes(group: str, document: Document, groups: GroupMembers, name: str) -> bool:
    """Return whether a field that comes directly after a field of a document is read as part of it."""
    if group not in groups:
        return False
    entries = document[group]
    if not entries:
        # After a count of 0, a member would be read as the first field of an entry.
        return name in groups[group]
    first, last = next(iter(entries[-1])), next(reversed(entries[-1]))
    if _takes(last, entries[-1], groups, name):
        return True
    return name in groups[group] and (name == first or name not in entries[-1])


def arranged_entries(count_name: str, entries: list[Document], groups: GroupMembers) -> list[Document]:
    """Return the entries of a group in written form: each begins with the first field of the first entry."""
    if not entries:
        return []
    delimiter = next(iter(entries[0]))
    found: list[Document] = []
    for entry in entries:
        if delimiter not in entry:
            raise bad_message(
                f"expected {excerpt(delimiter)} in each entry of the group {count_name}, like the first entry, got"
                " none"
            )
        # The next entry would be read as part of a group within this one (test_entries_that_could_not_be_separated).
        if found and _takes(next(reversed(found[-1])), found[-1], groups, delimiter):
            raise _inseparable(count_name, delimiter)
        found.append(_arranged_entry(count_name, entry, delimiter, groups))
    return found


def _arranged_entry(count_name: str, entry: Document, delimiter: str, groups: GroupMembers) -> Document:
    # Readers take the first field of the first entry for the beginning of each. Without it there, two entries would
    # be read as one (test_entries_begin_with_the_same_field).
    if next(iter(entry)) != delimiter:
        entry = {delimiter: entry[delimiter], **entry}
    arranged_entry = arranged(entry, groups, {})
    if next(iter(arranged_entry)) != delimiter:
        raise _inseparable(count_name, next(iter(arranged_entry)))
    return arranged_entry


def _inseparable(count_name: str, name: str) -> Exception:
    return bad_message(
        f"expected {excerpt(name)} in the entries of the group {count_name} only where it can't be read as part of"
        " the group before it: put another field between them, or change the groups"
    )
