"""XML made at random: what is read is what was written, deltas merge by path, and no bytes do harm."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

import jsonschema
import orjson
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.codecs.schema import XML, MessagePayload, Schema
from sowline.codecs.xml import XmlCodec
from sowline.errors import SowlineError
from sowline.model.body import read_object

NAMESPACES = {"f": "urn:fix", "g": "urn:g?a&b"}
OPTIONS = Schema(XML, orjson.dumps({"namespaces": NAMESPACES}).decode())
LISTS = Schema(XML, orjson.dumps({"namespaces": NAMESPACES, "lists": ["/a/b", "/a/b/b", "/a/f:b"]}).decode())
CODEC = XmlCodec(OPTIONS)
LISTS_CODEC = XmlCodec(LISTS)
DESCRIBED = jsonschema.Draft202012Validator(CODEC.described())
BLANKS = " \t\r\n"

LOCALS = st.sampled_from(["a", "b", "é.-1"])
NAMES = st.one_of(LOCALS, st.builds("f:{}".format, LOCALS), st.builds("g:{}".format, LOCALS))
CHARACTERS = st.sampled_from([*"<>&\"'x é\t\n\r]-\x7f\x85\u2028", "\U0001f600"])
TEXTS = st.text(CHARACTERS, min_size=1, max_size=5)


@dataclass
class Element:
    """An element of the model. Nodes are elements, texts, and pairs: ("!", comment), (target, data)."""

    name: str
    attributes: dict[str, str]
    nodes: list[Any] = field(default_factory=list)


COMMENTS = TEXTS.filter(lambda text: "--" not in text and not text.endswith("-")).map(
    lambda text: ("!", lines(text))
)
DATA = TEXTS.filter(lambda text: "?>" not in text).map(lambda text: lines(text).lstrip(BLANKS))
MARKUP = COMMENTS | st.tuples(st.sampled_from(["go", "é"]), DATA)
ATTRIBUTES = st.dictionaries(NAMES, TEXTS, max_size=3) | st.builds(
    lambda kept: {"xml:space": kept}, st.sampled_from(["preserve", "default"])
)
ELEMENTS = st.recursive(
    st.builds(Element, NAMES, ATTRIBUTES),
    lambda inner: st.builds(Element, NAMES, ATTRIBUTES, st.lists(inner | TEXTS | MARKUP, max_size=5)),
    max_leaves=10,
)


def lines(text: str) -> str:
    """Return a text with the line ends that a parser makes of it, where they can't be written as references."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


@dataclass
class Document:
    """A message of the model: its root, and what is before and after it."""

    before: list[Any]
    root: Element
    after: list[Any]


DOCUMENTS = st.builds(
    lambda before, root, after: Document(before, kept(root), after),
    st.lists(MARKUP, max_size=2),
    ELEMENTS,
    st.lists(MARKUP, max_size=2),
)


def kept(element: Element, keeps_blanks: bool = False) -> Element:
    """Return an element with one text where several follow each other, and without blank ones that indent."""
    keeps_blanks = element.attributes.get("xml:space", "preserve" if keeps_blanks else "") == "preserve"
    nodes: list[Any] = []
    for node in element.nodes:
        if isinstance(node, str) and nodes and isinstance(nodes[-1], str):
            nodes[-1] += node
        else:
            nodes.append(kept(node, keeps_blanks) if isinstance(node, Element) else node)
    texts = [node for node in nodes if isinstance(node, str)]
    if len(nodes) > 1 and not keeps_blanks and not any(text.strip(BLANKS) for text in texts):
        nodes = [node for node in nodes if not isinstance(node, str)]
    return Element(element.name, element.attributes, nodes)


class Style:
    """A way to spell a message: by itself as the codec does, else at random in all that is not kept."""

    def __init__(self, random: Random | None = None) -> None:
        self.random = random
        self.prefixes = {prefix: prefix for prefix in NAMESPACES}
        if random:
            self.prefixes = {prefix: random.choice([prefix, f"{prefix}x", "other"]) for prefix in NAMESPACES}
            if len(set(self.prefixes.values())) == 1:
                self.prefixes["f"] = "f"

    def message(self, document: Document) -> str:
        """Return the whole text."""
        used = {name.split(":")[0] for name in names_of(document.root)}
        declared = "".join(
            f' xmlns:{self.prefixes[prefix]}="{uri.replace("&", "&amp;")}"'
            for prefix, uri in NAMESPACES.items()
            if prefix in used or self.random
        )
        parts = [
            self.one_of(
                "", '<?xml version="1.0"?>', "<?xml version='1.0' encoding='utf-8' standalone='no'?>\n"
            ),
            *(self.markup(node) + self.blank() for node in document.before),
            self.element(document.root, declared),
            *(self.blank() + self.markup(node) for node in document.after),
            self.blank(),
        ]
        return "".join(parts)

    def one_of(self, *spellings: str) -> str:
        """Return the first spelling, or one at random."""
        return self.random.choice(spellings) if self.random else spellings[0]

    def blank(self) -> str:
        """Return what may stand between nodes."""
        return self.one_of("", " ", "\n\t", "\r\n")

    def name(self, name: str) -> str:
        """Return a name with the prefix that this message uses."""
        prefix, colon, local = name.rpartition(":")
        return f"{self.prefixes.get(prefix, prefix)}{colon}{local}"

    def element(self, element: Element, declared: str = "", keeps_blanks: bool = False) -> str:
        """Return an element."""
        keeps_blanks = element.attributes.get("xml:space", "preserve" if keeps_blanks else "") == "preserve"
        name = self.name(element.name)
        attributes = "".join(
            f" {self.blank()}{self.name(attribute)}{self.blank()}={self.blank()}{self.quoted(value)}"
            for attribute, value in element.attributes.items()
        )
        start = f"<{name}{declared}{attributes}{self.blank()}"
        if not element.nodes:
            return self.one_of(f"{start}/>", f"{start}></{name}>")
        has_text = any(isinstance(node, str) for node in element.nodes)
        indent = "" if has_text or keeps_blanks else self.blank()
        nodes = [self.node(node, keeps_blanks) + indent for node in element.nodes]
        return f"{start}>{indent}{''.join(nodes)}</{name}{self.blank()}>"

    def node(self, node: Any, keeps_blanks: bool) -> str:
        """Return a node of an element."""
        if isinstance(node, Element):
            return self.element(node, keeps_blanks=keeps_blanks)
        return self.text(node) if isinstance(node, str) else self.markup(node)

    def markup(self, node: tuple[str, str]) -> str:
        """Return a comment or a processing instruction."""
        name, data = node
        return f"<!--{data}-->" if name == "!" else f"<?{name} {data}?>"

    def text(self, text: str) -> str:
        """Return a text, or a part of it as CDATA."""
        if self.random and "]" not in text and "\r" not in text and self.random.random() < 0.3:
            return f"<![CDATA[{text}]]>"
        return "".join(map(self.character, text))

    def character(self, character: str) -> str:
        """Return a character of a text."""
        plain = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}.get(character, character)
        return self.one_of(plain, f"&#{ord(character)};", f"&#x{ord(character):X};")

    def quoted(self, value: str) -> str:
        """Return the value of an attribute."""
        references = {"&": "&amp;", "<": "&lt;", '"': "&quot;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
        quote = self.one_of('"', "'")
        spelled = [
            self.one_of(references.get(character, character), f"&#{ord(character)};") for character in value
        ]
        return f"{quote}{''.join(spelled).replace(quote, '&#39;')}{quote}"


def names_of(element: Element) -> list[str]:
    """Return the names of an element, its attributes, and those below."""
    below = [name for node in element.nodes if isinstance(node, Element) for name in names_of(node)]
    return [element.name, *element.attributes, *below]


def read(message: str | bytes, codec: XmlCodec = CODEC) -> bytes:
    """Return the canonical JSON of a message."""
    data = message.encode() if isinstance(message, str) else message
    body = codec.read(MessagePayload(data), OPTIONS)
    read_object(body)
    return body


@given(DOCUMENTS)
@example(Document([], Element("a", {}, [("!", "x"), Element("b", {}), ("!", "y")]), []))
def test_what_is_written_is_what_was_read(document: Document) -> None:
    """Byte for byte, if the message is spelled as the codec spells it; with and without lists."""
    message = Style().message(document)
    for codec in (CODEC, LISTS_CODEC):
        body = read(message, codec)
        assert codec.write(body).decode() == message
        assert codec.completed(body) == body
    DESCRIBED.validate(orjson.loads(read(message)))


@given(DOCUMENTS, st.randoms(use_true_random=False), st.sampled_from(["utf-8", "utf-16", "utf-8-sig"]))
def test_exactly_the_spelling_is_not_kept(document: Document, random: Random, encoding: str) -> None:
    """Prefixes, quotes, references, CDATA, blanks, encodings: a message in any spelling is written in one."""
    varied = Style(random).message(document)
    if encoding == "utf-16":
        varied = varied.replace("'utf-8'", "'utf-16'")
    assert CODEC.write(read(varied.encode(encoding))).decode() == Style().message(document)


@given(DOCUMENTS)
def test_deltas_are_read_as_they_are_written(document: Document) -> None:
    """Each message can be a delta."""
    for codec in (CODEC, LISTS_CODEC):
        body = read(Style().message(document), codec)
        data, fields = codec.write_delta(body)
        assert codec.read_delta(MessagePayload(data), OPTIONS, None) == body
        assert fields == ()


MEMBERS = st.sampled_from(["a", "b", "f:b", "é", "@a", "@f:a", "#text", "#comment", "#content", "?go"])
ODD_MEMBERS = MEMBERS | st.sampled_from(
    ["", "@", "?", "#x", "$date", "a b", "x:a", "@xmlns", "?xml", "a:", "<"]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(CHARACTERS | st.sampled_from("\x00\x1f\uffff"), max_size=3),
    st.sampled_from(["", " ", "a", "#text", "?>", "--", "-"]),
)


def values(members: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    """Return JSON whose objects have these members."""
    return st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(members, inner, max_size=4),
        max_leaves=12,
    )


@given(st.builds(lambda value: {"a": value}, values(MEMBERS) | values(ODD_MEMBERS)) | values(ODD_MEMBERS))
@example({"a": {"b": ["1"], "#content": ["b", "b", "#text"], "#text": [None, "x"]}})
def test_json_is_refused_or_becomes_canonical(document: Any) -> None:
    """What is written can be read, and completing it again changes nothing."""
    body = orjson.dumps(document)
    for codec in (CODEC, LISTS_CODEC):
        try:
            data = codec.write(body)
        except SowlineError as error:
            assert error.reason == "bad message"
            assert error.message.startswith("expected ")
        else:
            canonical = read(data, codec)
            assert codec.completed(body) == canonical
            assert codec.completed(canonical) == canonical
            assert read(codec.write(canonical), codec) == canonical


@given(values(MEMBERS))
def test_a_written_delta_changes_what_the_json_changes(value: Any) -> None:
    """It is refused, or its XML has the same members."""
    delta = {"a": value}
    try:
        data, _ = LISTS_CODEC.write_delta(orjson.dumps(delta))
    except SowlineError as error:
        assert error.reason == "bad message"
    else:
        assert orjson.loads(read(data, LISTS_CODEC)) == texts(delta)


def texts(value: Any) -> Any:
    """Return JSON with texts as values, and without objects that have nothing but a text."""
    if isinstance(value, list):
        return [texts(one) for one in value]
    if isinstance(value, dict):
        members = {name: texts(one) for name, one in value.items()}
        return members["#text"] if members.keys() == {"#text"} else members
    return "" if value is None else value if isinstance(value, str) else orjson.dumps(value).decode()


@given(DOCUMENTS, DOCUMENTS)
def test_deltas_merge_by_path(record: Document, delta: Document) -> None:
    """As in the model, and the record that comes of it can be written."""
    delta.root.name = record.root.name
    for codec in (CODEC, LISTS_CODEC):
        body, changes = (read(Style().message(document), codec) for document in (record, delta))
        merged = codec.merged(body, changes)
        assert orjson.loads(merged) == merged_value(orjson.loads(body), orjson.loads(changes))
        completed = codec.completed(merged)
        assert read(codec.write(completed), codec) == completed
        assert codec.completed(codec.merged(completed, changes)) == completed


def merged_value(old: Any, new: Any) -> Any:
    """Return what a delta makes of a value."""
    if isinstance(old, list) or isinstance(new, list) or (isinstance(old, str) and isinstance(new, str)):
        return new
    before = old if isinstance(old, dict) else {"#text": old}
    after = new if isinstance(new, dict) else {"#text": new}
    return before | {
        name: merged_value(before[name], value) if name in before else value for name, value in after.items()
    }


@given(
    st.binary(max_size=100)
    | st.text(st.sampled_from([*"<>/?!-&;#x=\"' ab[]:\r\n"]), max_size=60).map(str.encode)
)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Never another error."""
    try:
        body = read(data)
    except SowlineError as error:
        assert error.reason == "bad message"
    else:
        assert read(CODEC.write(body)) == body


@given(DOCUMENTS, st.randoms(use_true_random=False), st.data())
def test_changed_messages_are_read_or_refused(
    document: Document, random: Random, data: st.DataObject
) -> None:
    """Bytes that are gone, or others, or twice there."""
    message = bytearray(Style(random).message(document).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(message)))
        end = start + data.draw(st.integers(0, 4))
        message[start:end] = data.draw(st.binary(max_size=2) | st.just(bytes(message[start:end] * 2)))
    try:
        body = read(bytes(message))
    except SowlineError as error:
        assert error.reason == "bad message"
    else:
        assert read(CODEC.write(body)) == body
