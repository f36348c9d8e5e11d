"""Writes JSON as XML in UTF-8, without recursion. Anything that Expat would not read is refused."""

import re
from itertools import chain
from typing import Any, Final
from xml.parsers import expat

import orjson

from sowline.codecs.errors import bad_message
from sowline.codecs.schemaless import excerpt
from sowline.codecs.xml.nodes import ATTRIBUTE, COMMENT, CONTENT, INSTRUCTION, TEXT, is_element
from sowline.codecs.xml.options import XML_PREFIX
from sowline.errors import SowlineError

_INVALID: Final = "\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff"
# A parser changes line ends in texts and blanks in attributes, unless they are written as references
# (test_characters_that_markup_uses_are_written_as_references).
_IN_TEXT: Final = re.compile(f"[&<>\r{_INVALID}]")
_IN_ATTRIBUTE: Final = re.compile(f'[&<"\t\n\r{_INVALID}]')
_NOT_XML: Final = re.compile(f"[{_INVALID}]")
_REFERENCES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}
_ASCII_NAME: Final = re.compile(r"[A-Za-z_][\w.\-]*", re.ASCII)
_IN_NO_NAME: Final = re.compile(r"[\x00-,/:-@\[-^`{-\x7f]")


_XmlNode = tuple[str, Any]
"""A node that is still to be written: the name of its member, and its value. A plain tuple, for speed."""


class XmlWriter:
    """Writes records under the namespaces of one set of options."""

    def __init__(self, namespaces: dict[str, str]) -> None:
        self._namespaces = namespaces

    def write(self, document: dict[str, Any]) -> bytes:
        """Return the XML of a document; raise `bad message` if XML can't express it."""
        root = _root_name(document)
        names = _WrittenNames(self._namespaces)
        parts: list[str] = []
        rest: list[_XmlNode | str] = [*reversed(_nodes(document))]
        while rest:
            part = rest.pop()
            if isinstance(part, str):
                parts.append(part)
                continue
            name, value = part
            if not is_element(name):
                parts.append(_other_node(name, value))
                continue
            names.check(name)
            if not isinstance(value, dict):
                text = _escaped(value, name)
                parts.append(f"<{name}>{text}</{name}>" if text else f"<{name}/>")
            else:
                attributes, nodes = _attributes(value, names), _nodes(value)
                parts.append(f"<{name}{attributes}>" if nodes else f"<{name}{attributes}/>")
                if nodes:
                    rest.append(f"</{name}>")
                    rest.extend(reversed(nodes))
        return _with_declarations(parts, root, names.declarations()).encode()


def _with_declarations(parts: list[str], root: str, declarations: str) -> str:
    """Return the message. The namespaces that the root must declare are known only at the end."""
    if declarations:
        tag = f"<{root}"
        # Not always the first part: comments may come before the root
        # (test_the_root_declares_namespaces_after_other_nodes).
        at = next(number for number, part in enumerate(parts) if part.startswith(tag))
        parts[at] = f"{tag}{declarations}{parts[at].removeprefix(tag)}"
    return "".join(parts)


class _WrittenNames:
    """Checks the names of one message, and collects their prefixes."""

    def __init__(self, namespaces: dict[str, str]) -> None:
        self._namespaces = namespaces
        self._checked: set[str] = set()
        # Elements without a prefix are in the default namespace, so it is always declared.
        self._used: set[str] = {""} & namespaces.keys()

    def check(self, name: str) -> None:
        """Raise `bad message` unless this is the name of an element or an attribute, with or without a prefix."""
        if name in self._checked:
            return
        if not _ASCII_NAME.fullmatch(name):
            self._check_any(name)
        self._checked.add(name)

    def _check_any(self, name: str) -> None:
        prefix, colon, local = name.rpartition(":")
        if not _is_name(local) or (colon and not _is_name(prefix)):
            raise _no_name(name)
        if colon and prefix != XML_PREFIX:
            if prefix not in self._namespaces:
                raise bad_message(
                    f"expected a declared prefix, got {excerpt(name)}: add {excerpt(prefix)} to"
                    " message_format.namespaces"
                )
            self._used.add(prefix)

    def attribute(self, member: str) -> str:
        """Return the checked name of an attribute's member."""
        name = member[1:]
        self.check(name)
        # It would move the element, and all below it, into another namespace.
        if name == "xmlns":
            raise bad_message("expected no attribute xmlns, got one: declare it in message_format.namespaces")
        return name

    def declarations(self) -> str:
        """Return the attributes that declare the namespaces of the prefixes."""
        return "".join(
            f' {f"xmlns:{prefix}" if prefix else "xmlns"}="{_IN_ATTRIBUTE.sub(_reference, uri)}"'
            for prefix, uri in self._namespaces.items()
            if prefix in self._used
        )


def _root_name(document: dict[str, Any]) -> str:
    names = [name for name in document if is_element(name)]
    if len(names) != 1:
        raise bad_message(f"expected one root element, got {len(names)}: put all elements below one")
    for name in document:
        if name == TEXT or name.startswith(ATTRIBUTE):
            raise bad_message(
                f"expected no text and no attribute next to the root, got {excerpt(name)}: put it below"
            )
    if isinstance(document[names[0]], list):
        raise bad_message(
            f"expected one root element, got an array of {excerpt(names[0])}: put it below another element"
        )
    return names[0]


def _nodes(members: dict[str, Any]) -> list[_XmlNode]:
    """Return the child nodes of an element in their order."""
    nodes = [
        (name, instance)
        for name, value in members.items()
        if name != CONTENT and not name.startswith(ATTRIBUTE)
        for instance in (value if isinstance(value, list) else (value,))
    ]
    return _ordered(nodes, members[CONTENT]) if CONTENT in members else nodes


def _ordered(nodes: list[_XmlNode], content: Any) -> list[_XmlNode]:
    """Return nodes in the order of `#content`. Nodes that it doesn't name follow; its other names are skipped."""
    if not isinstance(content, list) or not all(isinstance(name, str) for name in content):
        raise bad_message(
            f"expected an array of the names of nodes in {CONTENT}, got {_kind(content)}: leave it out"
        )
    waiting: dict[str, list[_XmlNode]] = {}
    for node in reversed(nodes):
        waiting.setdefault(node[0], []).append(node)
    named = [waiting[name].pop() for name in content if waiting.get(name)]
    return [*named, *chain.from_iterable(found[::-1] for found in reversed(waiting.values()))]


def _other_node(name: str, value: Any) -> str:
    """Return the XML of a node that is not an element."""
    if name == TEXT:
        return _escaped(value, name)
    if name == COMMENT:
        return _comment(_text(value, name))
    if name.startswith(INSTRUCTION):
        return _instruction(name[1:], _text(value, name))
    raise _no_name(name)


def _attributes(members: dict[str, Any], names: _WrittenNames) -> str:
    return "".join(
        [
            f' {names.attribute(name)}="{_IN_ATTRIBUTE.sub(_reference, _text(value, name))}"'
            for name, value in members.items()
            if name.startswith(ATTRIBUTE)
        ]
    )


def _escaped(value: Any, name: str) -> str:
    return _IN_TEXT.sub(_reference, _text(value, name))


def _comment(text: str) -> str:
    # The comment would end there, and readers would take the rest for markup.
    if "--" in text or text.endswith("-"):
        raise bad_message(f"expected a comment without -- and without - at its end, got {excerpt(text)}")
    return f"<!--{_valid(text)}-->"


def _instruction(target: str, data: str) -> str:
    if not _is_name(target) or target.lower() == "xml":
        raise bad_message(
            f"expected the target of a processing instruction, got {excerpt(target)}: rename the member"
        )
    if "?>" in data:
        raise bad_message(f"expected a processing instruction without ?>, got {excerpt(data)}")
    return f"<?{target} {_valid(data)}?>"


def _text(value: Any, name: str) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, dict | list):
        raise bad_message(f"expected a text in {excerpt(name)}, got {_kind(value)}")
    return orjson.dumps(value).decode()


def _valid(text: str) -> str:
    if found := _NOT_XML.search(text):
        raise _no_character(found[0])
    return text


def _reference(found: re.Match[str]) -> str:
    character = found[0]
    if character in "\t\n\r":
        return f"&#{ord(character)};"
    reference = _REFERENCES.get(character)
    if reference is None:
        raise _no_character(character)
    return reference


def _is_name(name: str) -> bool:
    """Whether this is a name without a prefix. Expat decides which letters a name may have."""
    if _ASCII_NAME.fullmatch(name):
        return True
    # Expat is not asked about names with markup: they would be read as more than a name.
    if name.isascii() or _IN_NO_NAME.search(name):
        return False
    try:
        expat.ParserCreate().Parse(f"<{name}/>".encode(), True)
    except expat.ExpatError:
        return False
    return True


def _no_character(character: str) -> SowlineError:
    return bad_message(
        f"expected text without control characters, got U+{ord(character):04X}: XML can't express it"
    )


def _no_name(name: str) -> SowlineError:
    return bad_message(f"expected a name of XML, got {excerpt(name)}: rename the member")


def _kind(value: object) -> str:
    return "an object" if isinstance(value, dict) else "an array" if isinstance(value, list) else "a value"
