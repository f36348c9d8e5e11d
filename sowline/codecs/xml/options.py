"""The `message_format` of a topic of XML messages: the prefixes of namespaces, and the elements that repeat."""

import re
from typing import Final

import msgspec

from sowline.codecs.errors import bad_schema, incompatible_schema
from sowline.codecs.schema import Schema
from sowline.codecs.xml.nodes import is_element
from sowline.model.path import PathError, parse_path

XML_PREFIX: Final = "xml"
XML_NAMESPACE: Final = "http://www.w3.org/XML/1998/namespace"
"""The namespace of `xml:lang` and `xml:space`; no message declares it."""

_RESERVED: Final = (XML_NAMESPACE, "http://www.w3.org/2000/xmlns/")

_PREFIX: Final = re.compile(r"(?!xml)[A-Za-z_][\w.\-]*|", re.ASCII | re.IGNORECASE)
_URI: Final = re.compile(r"[!-~]+")

IS_LIST: Final = ""
"""The name that marks an element of `Lists` as one that is always an array."""

Lists = dict[str, "Lists"]
"""The elements below an element that paths of `lists` go through, by name."""


class XmlOptions(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The options of a topic.

    `namespaces` are URIs by prefix; the prefix "" is for elements without one. `lists` are the paths of elements that
    are always arrays.
    """

    namespaces: dict[str, str] = {}
    lists: tuple[str, ...] = ()


def load_options(schema: Schema) -> XmlOptions:
    """Return the options in the text of a schema; raise `bad schema`."""
    try:
        options = msgspec.json.decode(schema.text, type=XmlOptions)
    except msgspec.MsgspecError as error:
        raise bad_schema(f"expected namespaces and lists: {error}") from None
    _check_namespaces(options.namespaces)
    for path in options.lists:
        element_names(path)
    return options


def element_names(path: str) -> list[str]:
    """Return the names in a path of `lists`, the root's first; raise `bad schema`."""
    try:
        steps = parse_path(path).steps
    except PathError as error:
        raise bad_schema(f"expected paths of elements in lists: {error.message}") from None
    names = [step for step in steps if isinstance(step, str) and is_element(step)]
    if len(names) < len(steps):
        raise bad_schema(f"expected a path of elements like /Order/Leg in lists, got {path!r}")
    if len(names) < 2:
        raise bad_schema(f"expected a path below the root like /Order/Leg in lists, got {path!r}")
    return names


def _check_namespaces(namespaces: dict[str, str]) -> None:
    prefixes: dict[str, str] = {}
    for prefix, uri in namespaces.items():
        if not _PREFIX.fullmatch(prefix):
            raise bad_schema(
                f"expected a prefix of letters and digits that does not begin with xml, got {prefix!r}"
            )
        if not _URI.fullmatch(uri) or uri in _RESERVED:
            raise bad_schema(f"expected the URI of a namespace for the prefix {prefix!r}, got {uri!r}")
        # With two prefixes for one namespace, an element would have two names.
        if prefix and prefixes.setdefault(uri, prefix) != prefix:
            raise bad_schema(f"expected one prefix for {uri!r}, got {prefixes[uri]!r} and {prefix!r}")


def check_keeps(options: XmlOptions, earlier: XmlOptions) -> None:
    """Raise `incompatible schema` unless the names in records of earlier options mean the same elements now."""
    for prefix, uri in earlier.namespaces.items():
        now = options.namespaces.get(prefix)
        if now != uri:
            raise incompatible_schema(
                f"expected the prefix {prefix!r} to stay {uri!r}, got {now!r}: records have names with this prefix"
            )
    if "" in options.namespaces and "" not in earlier.namespaces:
        raise incompatible_schema(
            "expected no prefix '' in namespaces, got one: elements without a prefix are in no namespace in records"
        )
