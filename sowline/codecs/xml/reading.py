"""Reads XML into canonical JSON, without recursion and without a tree of the document."""

from typing import Any, Final
from xml.parsers import expat

import msgspec

from sowline.codecs.errors import bad_message
from sowline.codecs.schemaless import excerpt
from sowline.codecs.xml.nodes import ATTRIBUTE, COMMENT, CONTENT, INSTRUCTION, TEXT
from sowline.codecs.xml.options import IS_LIST, XML_NAMESPACE, XML_PREFIX, Lists, XmlOptions, element_names
from sowline.errors import SowlineError
from sowline.model.nesting import NESTING_MAX, check_nesting

_ENCODINGS: Final = frozenset({"utf-8", "utf-16", "utf-16le", "utf-16be", "iso-8859-1", "us-ascii"})
"""The encodings that Expat decodes itself. Others go to Python's codecs, which change with Python's version."""

_SEPARATOR: Final = " "
"""The character that Expat puts between a node's namespace URI and its name. No name contains it."""

_BLANKS: Final = " \t\r\n"
_SPACE: Final = "@xml:space"
_PIECE_LEVELS: Final = 50
"""At every multiple of this depth, an element becomes text at once: msgspec uses Python's stack for each level."""

_NO_LISTS: Final[Lists] = {}

_encode = msgspec.json.Encoder().encode


class XmlReader:
    """Reads messages under one set of options."""

    def __init__(self, options: XmlOptions) -> None:
        self._names = MemberNames(options)
        self._lists: Lists = {}
        for path in options.lists:
            below = self._lists
            for name in element_names(path):
                below = below.setdefault(name, {})
            below[IS_LIST] = {}

    def read(self, data: bytes) -> bytes:
        """Return the canonical JSON of a message; raise `bad message` or `too deep`."""
        document = _OpenDocument(self._names, self._lists)
        # A new parser for each message: a parser keeps all names that it has seen (test_names_are_forgotten).
        parser = expat.ParserCreate(namespace_separator=_SEPARATOR)
        parser.ordered_attributes = True
        parser.buffer_text = True
        # A text arrives in one call, because it fits: in UTF-8, a message has at most twice as many bytes.
        parser.buffer_size = 2 * len(data) + 1
        parser.StartElementHandler = document.start
        parser.EndElementHandler = document.end
        parser.CharacterDataHandler = document.text
        parser.CommentHandler = document.comment
        parser.ProcessingInstructionHandler = document.instruction
        parser.XmlDeclHandler = _check_declaration
        parser.StartDoctypeDeclHandler = _refuse_doctype
        try:
            parser.Parse(data, True)
        except expat.ExpatError as error:
            raise bad_message(f"expected well-formed XML, got: {error}") from None
        body = _encode(document.value())
        if len(body) > 2 * NESTING_MAX:  # each level takes two brackets
            check_nesting(body)
        return body


class MemberNames:
    """Turns Expat's names, which contain the URI of their namespace, into names of members."""

    def __init__(self, options: XmlOptions) -> None:
        prefixes = {uri: f"{prefix}:" for prefix, uri in options.namespaces.items() if prefix}
        self._attributes = {**prefixes, XML_NAMESPACE: f"{XML_PREFIX}:"}
        self._elements = dict(self._attributes)
        self.has_default = "" in options.namespaces
        if self.has_default:
            self._elements[options.namespaces[""]] = ""

    def element(self, name: str) -> str:
        """Return the name of an element's member; raise `bad message` if its namespace has no prefix."""
        uri, separator, local = name.rpartition(_SEPARATOR)
        if separator:
            return _prefix(self._elements, uri, local) + local
        if self.has_default:
            raise bad_message(
                f"expected elements of a namespace, because namespaces has the prefix '', got {excerpt(name)} in no"
                " namespace: declare the prefix of no namespace instead"
            )
        return name

    def attribute(self, name: str) -> str:
        """Return the name of an attribute's member; raise `bad message` if its namespace has no prefix."""
        uri, separator, local = name.rpartition(_SEPARATOR)
        prefix = _prefix(self._attributes, uri, local) if separator else ""
        return f"{ATTRIBUTE}{prefix}{local}"


def _prefix(prefixes: dict[str, str], uri: str, local: str) -> str:
    prefix = prefixes.get(uri)
    if prefix is None:
        raise bad_message(
            f"expected a declared namespace, got {excerpt(uri)} of {excerpt(local)}: give it a prefix in"
            " message_format.namespaces"
        )
    return prefix


class _OpenElement:
    """An element that is being read: the nodes that Expat has reported so far.

    `nodes` alternates the names and values of its child nodes: pairs would take several times the memory.
    """

    __slots__ = ("attributes", "keeps_blanks", "lists", "nodes")

    def __init__(self, lists: Lists, keeps_blanks: bool) -> None:
        self.attributes: dict[str, Any] | None = None
        self.nodes: list[Any] = []
        self.lists = lists
        self.keeps_blanks = keeps_blanks

    def value(self) -> Any:
        """Return the element as JSON: a text, or an object."""
        nodes, attributes = self.nodes, self.attributes
        if attributes is None:
            if not nodes:
                return ""
            if len(nodes) == 2 and nodes[0] == TEXT:
                return nodes[1]
        names, values = nodes[::2], nodes[1::2]
        if TEXT in names and len(names) > 1 and not self.keeps_blanks:
            names, values = _without_blanks(names, values)
        members = dict(zip(names, values, strict=True))
        if len(members) < len(names):
            members = _collected(names, values)
        if attributes is not None:
            members = attributes | members
        for name in self.lists:
            if name in members and type(members[name]) is not list and IS_LIST in self.lists[name]:
                members[name] = [members[name]]
        return members


def _without_blanks(names: list[str], values: list[Any]) -> tuple[list[str], list[Any]]:
    """Return the nodes without texts, if all of those are blank: they indent the other nodes."""
    # Only the blanks of XML: other blanks of Unicode are content.
    if any(name == TEXT and value.strip(_BLANKS) for name, value in zip(names, values, strict=True)):
        return names, values
    kept = [value for name, value in zip(names, values, strict=True) if name != TEXT]
    return [name for name in names if name != TEXT], kept


def _collected(names: list[str], values: list[Any]) -> dict[str, Any]:
    """Return the members of nodes: nodes of one name as an array; with `#content` unless they show the order."""
    members: dict[str, Any] = {}
    before, shows_order = "", True
    for name, value in zip(names, values, strict=True):
        if name not in members:
            members[name] = value
        else:
            shows_order = shows_order and name == before
            found = members[name]
            if type(found) is list:
                found.append(value)
            else:
                members[name] = [found, value]
        before = name
    if not shows_order:
        members[CONTENT] = names
    return members


class _OpenDocument:
    """The elements that are open; the first is the document itself."""

    def __init__(self, names: MemberNames, lists: Lists) -> None:
        self._element_name = names.element
        self._has_default = names.has_default
        self._attribute_name = names.attribute
        self._now = _OpenElement(lists, keeps_blanks=False)
        self._above: list[_OpenElement] = []

    def start(self, name: str, attributes: list[str]) -> None:
        """Open an element; `attributes` alternates names and values."""
        above = self._now
        self._above.append(above)
        # Raised inside the parser, which then reads no further (test_depth_ends_the_reading).
        if len(self._above) >= NESTING_MAX:
            raise SowlineError(
                "too deep",
                f"expected less than {NESTING_MAX} levels of elements, got more: send a flatter message",
            )
        if self._has_default or _SEPARATOR in name:
            name = self._element_name(name)
        above.nodes.append(name)
        lists = above.lists and above.lists.get(name, _NO_LISTS)
        now = self._now = _OpenElement(lists, above.keeps_blanks)
        if attributes:
            pairs = zip(attributes[::2], attributes[1::2], strict=True)
            now.attributes = {self._attribute_name(name): value for name, value in pairs}
            if _SPACE in now.attributes:
                now.keeps_blanks = now.attributes[_SPACE] == "preserve"

    def end(self, _name: str) -> None:
        """Close the innermost element."""
        value = self._now.value()
        if len(self._above) % _PIECE_LEVELS == 0:
            value = msgspec.Raw(_encode(value))
        self._now = self._above.pop()
        self._now.nodes.append(value)

    def text(self, text: str) -> None:
        """Add a text."""
        self._now.nodes += (TEXT, text)

    def comment(self, text: str) -> None:
        """Add a comment."""
        self._now.nodes += (COMMENT, text)

    def instruction(self, target: str, data: str) -> None:
        """Add a processing instruction."""
        self._now.nodes += (INSTRUCTION + target, data)

    def value(self) -> Any:
        """Return the document as a JSON object."""
        return self._now.value()


def _check_declaration(_version: str, encoding: str | None, _standalone: int) -> None:
    if encoding is not None and encoding.lower() not in _ENCODINGS:
        raise bad_message(
            f"expected the encoding UTF-8, UTF-16, ISO-8859-1 or US-ASCII, got {excerpt(encoding)}: encode the"
            " message as UTF-8"
        )


# Only a document type can declare entities, which could expand without bound (test_laughs_are_not_expanded).
def _refuse_doctype(name: str, *_ids: object) -> None:
    raise bad_message(
        f"expected a message without a document type, got <!DOCTYPE {excerpt(name)}: leave it out"
    )
