"""XML: elements, attributes and text by their paths; what members can't show; deltas by element path."""

import socket
from typing import Any

import jsonschema
import orjson
import pytest

from sowline.codecs.schema import XML, MessagePayload, Schema
from sowline.codecs.xml import XmlCodec
from sowline.errors import SowlineError
from sowline.model.body import read_object
from sowline.model.path import parse_path

ORDER = (
    b'<Order update="full"><Symbol>IBM</Symbol><Leg><Qty>1</Qty></Leg><Leg><Qty>2</Qty></Leg>'
    b'<Price ccy="USD">5</Price></Order>'
)
ORDER_JSON = {
    "Order": {
        "@update": "full",
        "Symbol": "IBM",
        "Leg": [{"Qty": "1"}, {"Qty": "2"}],
        "Price": {"@ccy": "USD", "#text": "5"},
    }
}
F = {"f": "urn:fix"}


def schema(**options: Any) -> Schema:
    """Return the options of a topic as the reader schema that the codec gets."""
    return Schema(XML, orjson.dumps(options).decode())


def read(message: bytes | str, **options: Any) -> Any:
    """Return the JSON of a message."""
    data = message.encode() if isinstance(message, str) else message
    return orjson.loads(XmlCodec(schema(**options)).read(MessagePayload(data), schema(**options)))


def write(document: Any, **options: Any) -> str:
    """Return the XML of a document."""
    return XmlCodec(schema(**options)).write(orjson.dumps(document)).decode()


def completed(document: Any, **options: Any) -> Any:
    """Return the canonical JSON of a document."""
    return orjson.loads(XmlCodec(schema(**options)).completed(orjson.dumps(document)))


def merged(record: str, delta: str, **options: Any) -> str:
    """Return the XML of a record after a delta."""
    codec = XmlCodec(schema(**options))
    body = codec.read(MessagePayload(record.encode()), schema())
    changes = codec.read_delta(MessagePayload(delta.encode()), schema(), None)
    return codec.write(codec.completed(codec.merged(body, changes))).decode()


def test_an_order_is_read_by_its_paths() -> None:
    """Attributes, elements, repeated elements and texts have the paths of the chapters."""
    order = read(ORDER)
    assert order == ORDER_JSON
    assert list(order["Order"]) == ["@update", "Symbol", "Leg", "Price"]
    for path, value in {
        "/Order/@update": "full",
        "/Order/Symbol": "IBM",
        "/Order/Leg[1]/Qty": "2",
        "/Order/Price/@ccy": "USD",
        "[/Order/Price/#text]": "5",
    }.items():
        assert parse_path(path).read(order) == value


def test_an_order_is_written_as_it_came() -> None:
    """Nothing of the example is lost."""
    assert write(ORDER_JSON).encode() == ORDER


def test_a_message_in_lines_with_a_namespace_and_a_list() -> None:
    """Its record has neither the blanks nor the prefix of the message, and an array of one."""
    message = """
    <Order id="a-17" xmlns:fees="urn:example:fees">
      <Symbol>IBM</Symbol>
      <Leg><Qty>1</Qty></Leg>
      <Price ccy="USD">5.10</Price>
      <fees:Fee>2</fees:Fee>
    </Order>
    """
    options = {"namespaces": {"f": "urn:example:fees"}, "lists": ["/Order/Leg"]}
    order = read(message, **options)
    assert order == {
        "Order": {
            "@id": "a-17",
            "Symbol": "IBM",
            "Leg": [{"Qty": "1"}],
            "Price": {"@ccy": "USD", "#text": "5.10"},
            "f:Fee": "2",
        }
    }
    assert write(order, **options) == (
        '<Order xmlns:f="urn:example:fees" id="a-17"><Symbol>IBM</Symbol><Leg><Qty>1</Qty></Leg>'
        '<Price ccy="USD">5.10</Price><f:Fee>2</f:Fee></Order>'
    )


@pytest.mark.parametrize(
    ("message", "value"),
    [
        ("<a/>", ""),
        ("<a></a>", ""),
        ("<a> x </a>", " x "),
        ("<a>  </a>", "  "),
        ('<a b="1"/>', {"@b": "1"}),
        ('<a b="1"> </a>', {"@b": "1", "#text": " "}),
        ('<a z="1" b="2"/>', {"@z": "1", "@b": "2"}),
        ("<a><b/></a>", {"b": ""}),
        ("<a><b/><b/></a>", {"b": ["", ""]}),
        ("<a>\n  <b/>\n  <b/>\n</a>", {"b": ["", ""]}),
        ("<a>x<b/></a>", {"#text": "x", "b": ""}),
        ("<a><b/>x</a>", {"b": "", "#text": "x"}),
        ("<a>x <b/> </a>", {"#text": ["x ", " "], "b": "", "#content": ["#text", "b", "#text"]}),
        ("<a><b/><c/><b/></a>", {"b": ["", ""], "c": "", "#content": ["b", "c", "b"]}),
        ("<a><!-- x --></a>", {"#comment": " x "}),
        ("<a> <!--x--> </a>", {"#comment": "x"}),
        (
            "<a>1<!--x-->2</a>",
            {"#text": ["1", "2"], "#comment": "x", "#content": ["#text", "#comment", "#text"]},
        ),
        ("<a><?go fast?></a>", {"?go": "fast"}),
        ("<a><?go?></a>", {"?go": ""}),
        ("<a>\u2028<b/></a>", {"#text": "\u2028", "b": ""}),
        ('<a xml:space="other"> <b/></a>', {"@xml:space": "other", "b": ""}),
        ('<a xml:space="preserve"> <b/></a>', {"@xml:space": "preserve", "#text": " ", "b": ""}),
        (
            '<a xml:space="preserve"><b xml:space="default"> <c/></b></a>',
            {"@xml:space": "preserve", "b": {"@xml:space": "default", "c": ""}},
        ),
        ("<a><![CDATA[<b>]]>&amp;&#65;</a>", "<b>&A"),
        ('<a b="1\n2&#10;3"/>', {"@b": "1 2\n3"}),
        ("<a>1\r\n2&#13;3</a>", "1\n2\r3"),
        ('<a xml:lang="de">x</a>', {"@xml:lang": "de", "#text": "x"}),
        ("<a.b-c_d>x</a.b-c_d>", None),
        ("<é>x</é>", None),
    ],
)
def test_what_members_stand_for(message: str, value: Any) -> None:
    """Each kind of node has a member; `#content` is there only if the members do not show the order."""
    document = read(message)
    if value is not None:
        assert document == {"a": value}
    assert read(write(document)) == document


def test_nodes_next_to_the_root_are_kept() -> None:
    """Comments and processing instructions before and after the root are members of the document."""
    message = "<!--1--><?style x?><a/><!--2-->"
    assert read(f"<?xml version='1.0'?>\n{message}\n") == {
        "#comment": ["1", "2"],
        "?style": "x",
        "a": "",
        "#content": ["#comment", "?style", "a", "#comment"],
    }
    assert write(read(message)) == message


@pytest.mark.parametrize(
    "message",
    [
        '<?xml version="1.0" encoding="UTF-8" standalone="yes"?><a b="1">x &lt; y<c/></a>',
        "<a b='1'>x &#60; y<c></c></a>",
        '<a b = "1" >x <![CDATA[<]]> y<c ></c ></a >',
        '<a b="&#49;">x &lt; y<c/></a>\n',
    ],
)
def test_what_is_not_kept(message: str) -> None:
    """The declaration, quotes, entities, CDATA, blanks in tags and the form of empty elements."""
    assert write(read(message)) == '<a b="1">x &lt; y<c/></a>'


def test_characters_that_markup_uses_are_written_as_references() -> None:
    """Also those that a parser would change: line ends in texts, blanks in attributes."""
    document = {"a": {"@b": "<\"'&>\t\n\r", "#text": "<\"'&]]>\t\n\r"}}
    assert write(document) == ('<a b="&lt;&quot;\'&amp;>&#9;&#10;&#13;">&lt;"\'&amp;]]&gt;\t\n&#13;</a>')
    assert read(write(document)) == document


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        (-(2**63), "-9223372036854775808"),
        (0.5, "0.5"),
        (True, "true"),
        (False, "false"),
        (None, ""),
    ],
)
def test_json_values_are_written_as_texts(value: Any, text: str) -> None:
    """Numbers and booleans by their JSON text; null is empty."""
    assert completed({"a": value}) == {"a": text}
    assert completed({"a": {"@b": value, "c": [value, value]}}) == {"a": {"@b": text, "c": [text, text]}}


@pytest.mark.parametrize(
    ("document", "canonical"),
    [
        ({"a": {}}, {"a": ""}),
        ({"a": {"#text": "x"}}, {"a": "x"}),
        ({"a": {"b": []}}, {"a": ""}),
        ({"a": {"b": [1]}}, {"a": {"b": "1"}}),
        ({"a": {"#text": ["x", "y"], "@b": "1"}}, {"a": {"@b": "1", "#text": "xy"}}),
        ({"a": {"#text": " ", "b": ""}}, {"a": {"b": ""}}),
        ({"a": {"b": "", "c": "", "#content": ["b", "c"]}}, {"a": {"b": "", "c": ""}}),
        ({"a": {"b": "", "c": "", "#content": ["c", "c", "d", "@x"]}}, {"a": {"c": "", "b": ""}}),
        (
            {"a": {"b": ["1", "2"], "c": ["3", "4"], "d": "", "#content": ["c", "b", "c"]}},
            {"a": {"c": ["3", "4"], "b": ["1", "2"], "d": "", "#content": ["c", "b", "c", "b", "d"]}},
        ),
        ({"a": {"b": ["1"], "#content": []}}, {"a": {"b": "1"}}),
    ],
)
def test_json_becomes_canonical(document: Any, canonical: Any) -> None:
    """A completed record is what is read when it is written."""
    assert completed(document) == canonical
    assert list(completed(document)["a"]) == list(canonical["a"])


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ([], "JSON object"),
        ({}, "expected one root element, got 0"),
        ({"#comment": "x"}, "expected one root element, got 0"),
        ({"a": 1, "b": 2}, "expected one root element, got 2"),
        ({"a": [1]}, "got an array of 'a'"),
        ({"a": "", "#text": "x"}, "next to the root, got '#text'"),
        ({"a": "", "@b": "x"}, "next to the root, got '@b'"),
        ({"a": {"@b": {}}}, "expected a text in '@b', got an object"),
        ({"a": {"@b": []}}, "expected a text in '@b', got an array"),
        ({"a": {"#text": {}}}, "expected a text in '#text', got an object"),
        ({"a": {"b": [[1]]}}, "expected a text in 'b', got an array"),
        ({"a": {"#comment": [[1]]}}, "expected a text in '#comment', got an array"),
        ({"a": {"?x": {}}}, "expected a text in '?x', got an object"),
        ({"a": {"#content": "b"}}, "array of the names of nodes in #content, got a value"),
        ({"a": {"#content": [1]}}, "array of the names of nodes in #content, got an array"),
        ({"a": {"#other": "b"}}, "expected a name of XML, got '#other'"),
        ({"a": {"$date": "b"}}, "expected a name of XML, got '$date'"),
        ({"": "b"}, "expected a name of XML, got ''"),
        ({"a b": "c"}, "expected a name of XML, got 'a b'"),
        ({"a": {"1": "c"}}, "expected a name of XML, got '1'"),
        ({"a": {"@": "c"}}, "expected a name of XML, got ''"),
        ({"a": {"@1": "c"}}, "expected a name of XML, got '1'"),
        ({"é/><b": "c"}, "expected a name of XML, got 'é/><b'"),
        ({"é b='c'": "d"}, "expected a name of XML, got"),
        ({"a": {"é ": "c"}}, "expected a name of XML, got 'é '"),
        ({"\U0001f600": "c"}, "expected a name of XML"),
        ({"a:": "c"}, "expected a name of XML, got 'a:'"),
        ({":a": "c"}, "expected a name of XML, got ':a'"),
        ({"a:b:c": "c"}, "expected a name of XML, got 'a:b:c'"),
        ({"g:a": "c"}, "expected a declared prefix, got 'g:a'"),
        ({"a": {"@xmlns:g": "c"}}, "expected a declared prefix, got 'xmlns:g'"),
        ({"a": {"@xmlns": "c"}}, "expected no attribute xmlns"),
        ({"a": "\x00"}, "U+0000"),
        ({"a": {"@b": "\x1f"}}, "U+001F"),
        ({"a": {"#comment": "\x0b"}}, "U+000B"),
        ({"a": {"?b": "\uffff"}}, "U+FFFF"),
        ({"a": {"#comment": "--"}}, "expected a comment without --"),
        ({"a": {"#comment": "x-"}}, "expected a comment without --"),
        ({"a": {"?b": "?>"}}, "without ?>"),
        ({"a": {"?xMl": ""}}, "expected the target of a processing instruction, got 'xMl'"),
        ({"a": {"?": ""}}, "expected the target of a processing instruction, got ''"),
        ({"a": {"?a:b": ""}}, "expected the target of a processing instruction, got 'a:b'"),
        ({"a" * 100: 1, "b": 2, "c": []}, "expected one root element, got 3"),
    ],
)
def test_json_that_xml_can_not_express_is_refused(document: Any, sentence: str) -> None:
    """With a sentence that names the member."""
    with pytest.raises(SowlineError) as refused:
        write(document, namespaces=F)
    assert refused.value.reason == "bad message"
    assert sentence in refused.value.message


def test_letters_of_names_are_those_that_expat_reads() -> None:
    """Whatever Unicode says: a name that is written can be read."""
    codec = XmlCodec(schema())
    allowed, refused = [], []
    for letter in (chr(code) for code in range(1, 0x10010) if not 0xD800 <= code < 0xE000):
        try:
            codec.write(orjson.dumps({f"a{letter}": ""}))
        except SowlineError:
            refused.append(letter)
        else:
            allowed.append(letter)
    name = "a" + "".join(allowed)
    assert read(f"<{name}/>") == {name: ""}
    assert {"é", "Z", "_", "-", "9", "中"} < set(allowed)
    for letter in [letter for letter in refused if letter != ":"][::50]:
        with pytest.raises(SowlineError):
            read(f"<a{letter}/>" if letter not in " \t\n\r/" else f"<a{letter}a/>")


def test_characters_of_texts_are_those_that_expat_reads() -> None:
    """All of Unicode but control characters and noncharacters of the last two code points of its first plane."""
    text = "".join(chr(code) for code in range(0x20, 0x110000) if not 0xD800 <= code < 0xE000)
    text = text.replace("\ufffe", "").replace("\uffff", "")
    assert read(write({"a": {"@b": text, "#text": text}})) == {"a": {"@b": text, "#text": text}}
    for code in [*range(0x20), 0xFFFE, 0xFFFF]:
        if chr(code) not in "\t\n\r":
            with pytest.raises(SowlineError, match=f"U\\+{code:04X}"):
                write({"a": chr(code)})


def test_elements_of_lists_are_always_arrays() -> None:
    """One element is an array of one, at any depth."""
    lists = ["/Order/Leg", "/Order/Leg/Fill", "/Order/Note"]
    message = "<Order><Leg><Fill>1</Fill></Leg><Note/></Order>"
    order = {"Order": {"Leg": [{"Fill": ["1"]}], "Note": [""]}}
    assert read(message, lists=lists) == order
    assert read("<Order><Leg/><Leg/><Other><Leg/></Other></Order>", lists=lists) == {
        "Order": {"Leg": ["", ""], "Other": {"Leg": ""}}
    }
    assert write(order, lists=lists) == message
    assert read("<Quote><Leg/></Quote>", lists=lists) == {"Quote": {"Leg": ""}}


def test_names_have_the_declared_prefix() -> None:
    """Whatever prefix the message uses, and the root declares those that the message needs."""
    namespaces = {**F, "": "urn:plain", "p": "urn:plain", "unused": "urn:unused"}
    message = (
        '<x:Order xmlns:x="urn:fix" x:id="1" plain="2">'
        '<Note xmlns="urn:plain" xmlns:q="urn:plain" q:by="me"/></x:Order>'
    )
    order = {"f:Order": {"@f:id": "1", "@plain": "2", "Note": {"@p:by": "me"}}}
    assert read(message, namespaces=namespaces) == order
    assert write(order, namespaces=namespaces) == (
        '<f:Order xmlns:f="urn:fix" xmlns="urn:plain" xmlns:p="urn:plain" f:id="1" plain="2">'
        '<Note p:by="me"/></f:Order>'
    )
    assert read(write(order, namespaces=namespaces), namespaces=namespaces) == order


def test_the_root_declares_namespaces_after_other_nodes() -> None:
    """Comments before the root stay before it."""
    document = {"#comment": "<f:a>", "f:a": {"@f:b": "&"}}
    namespaces = {"f": "urn:a?b&c"}
    assert write(document, namespaces=namespaces) == '<!--<f:a>--><f:a xmlns:f="urn:a?b&amp;c" f:b="&amp;"/>'
    assert read(write(document, namespaces=namespaces), namespaces=namespaces) == document


@pytest.mark.parametrize(
    ("message", "namespaces", "sentence"),
    [
        ('<a xmlns="urn:x"/>', F, "got 'urn:x' of 'a': give it a prefix in message_format.namespaces"),
        ('<a xmlns:x="urn:x" x:b=""/>', F, "got 'urn:x' of 'b'"),
        ('<a xmlns="urn:p" xmlns:x="urn:p" x:b=""/>', {"": "urn:p"}, "got 'urn:p' of 'b'"),
        ("<a/>", {"": "urn:p"}, "got 'a' in no namespace"),
        ("<x:a/>", F, "unbound prefix"),
        ("<f:a/>", F, "unbound prefix"),
    ],
)
def test_other_namespaces_are_refused(message: str, namespaces: dict[str, str], sentence: str) -> None:
    """The sentence has the URI, and where to add it."""
    with pytest.raises(SowlineError, match="expected") as refused:
        read(message, namespaces=namespaces)
    assert refused.value.reason == "bad message"
    assert sentence in refused.value.message


def test_a_namespace_may_be_declared_and_not_used() -> None:
    """Declarations are no attributes."""
    assert read('<a xmlns:x="urn:x" b="1"/>') == {"a": {"@b": "1"}}


@pytest.mark.parametrize(
    ("record", "delta", "after"),
    [
        # The text changes and the attribute stays, and the other way round.
        ('<O><P c="1">5</P></O>', "<O><P>6</P></O>", '<O><P c="1">6</P></O>'),
        ('<O><P c="1">5</P></O>', '<O><P c="2"/></O>', '<O><P c="2">5</P></O>'),
        ("<O><P>5</P></O>", '<O><P c="2"/></O>', '<O><P c="2">5</P></O>'),
        ("<O><P>5</P></O>", '<O><P c="2">6</P></O>', '<O><P c="2">6</P></O>'),
        ("<O><P>5</P><Q>1</Q></O>", "<O><P>6</P></O>", "<O><P>6</P><Q>1</Q></O>"),
        # An empty element empties the text. It changes nothing of an element without text.
        ('<O><P c="1">5</P></O>', "<O><P/></O>", '<O><P c="1"/></O>'),
        ("<O><P>5</P></O>", "<O><P/></O>", "<O><P/></O>"),
        ("<O><P><Q>1</Q></P></O>", "<O><P/></O>", "<O><P><Q>1</Q></P></O>"),
        ("<O/>", "<O><P/></O>", "<O><P/></O>"),
        (
            "<O><A><B>1</B><C>2</C></A></O>",
            "<O><A><B>3</B><D>4</D></A></O>",
            "<O><A><B>3</B><C>2</C><D>4</D></A></O>",
        ),
        # Repeated elements are replaced as a whole.
        ("<O><L><Q>1</Q><R/></L><L/><Z/></O>", "<O><L><Q>3</Q></L></O>", "<O><L><Q>3</Q></L><Z/></O>"),
        ("<O><L>1</L></O>", "<O><L>2</L><L>3</L></O>", "<O><L>2</L><L>3</L></O>"),
        ("<O><L>1</L><L>2</L></O>", "<O><L>3</L></O>", "<O><L>3</L></O>"),
        # The order stays, unless the delta has one that its members do not show.
        ("<O><a/><b/><a/></O>", "<O><a>1</a><a>2</a></O>", "<O><a>1</a><b/><a>2</a></O>"),
        ("<O><a/><b/><a/></O>", "<O><a>1</a></O>", "<O><a>1</a><b/></O>"),
        ("<O><a/><b/></O>", "<O><a>1</a><b>2</b><a>3</a></O>", "<O><a>1</a><b>2</b><a>3</a></O>"),
        ("<O>x<a/>y</O>", "<O>z<a>1</a></O>", "<O>z<a>1</a></O>"),
        ("<O>x<a/>y</O>", "<O><a>1</a></O>", "<O>x<a>1</a>y</O>"),
        ("<O><!--x--><a/></O>", "<O><!--y--><?go?></O>", "<O><!--y--><a/><?go ?></O>"),
        ("<!--x--><O/>", "<!--y--><O/>", "<!--y--><O/>"),
    ],
)
def test_deltas_merge_by_element_path(record: str, delta: str, after: str) -> None:
    """By the rules of the chapters."""
    assert merged(record, delta) == after


def test_a_delta_of_lists_replaces_one_element() -> None:
    """An array of one replaces, where the element alone would be merged."""
    record, delta = "<O><L><Q>1</Q><R>2</R></L></O>", "<O><L><Q>3</Q></L></O>"
    assert merged(record, delta) == "<O><L><Q>3</Q><R>2</R></L></O>"
    assert merged(record, delta, lists=["/O/L"]) == "<O><L><Q>3</Q></L></O>"


def test_a_delta_with_another_root_is_refused() -> None:
    """A record has one root."""
    with pytest.raises(SowlineError, match="expected a delta with the root element 'O', got 'Q'") as refused:
        merged("<O/>", "<Q/>")
    assert refused.value.reason == "bad message"


def test_merging_has_a_depth() -> None:
    """As in JSON: 200 levels of objects are merged."""
    deep = "<a>" * 200 + "1" + "</a>" * 200
    assert merged(deep, deep) == deep
    with pytest.raises(SowlineError, match="at most 200 levels") as refused:
        merged(f"<a>{deep}</a>", f"<a>{deep}</a>")
    assert refused.value.reason == "too deep"


def test_a_delta_takes_no_paths() -> None:
    """XML itself shows what a delta changes."""
    with pytest.raises(SowlineError, match=r"expected no sow\.fields") as refused:
        XmlCodec(schema()).read_delta(MessagePayload(ORDER), schema(), ["/Order/Symbol"])
    assert refused.value.reason == "bad header"


@pytest.mark.parametrize(
    ("delta", "message"),
    [
        ({"O": {"@id": 1, "P": 6}}, '<O id="1"><P>6</P></O>'),
        ({"O": {"P": {"#text": 6}}}, "<O><P>6</P></O>"),
        ({"O": {"P": None}}, "<O><P/></O>"),
        ({"O": {"L": [1, {"Q": 2}]}}, "<O><L>1</L><L><Q>2</Q></L></O>"),
    ],
)
def test_deltas_are_written(delta: Any, message: str) -> None:
    """As XML that changes the same."""
    assert XmlCodec(schema()).write_delta(orjson.dumps(delta)) == (message.encode(), ())


@pytest.mark.parametrize(
    "delta",
    [
        {"O": {"L": []}},
        {"O": {"L": [1]}},
        {"O": {"L": {}}},
        {"O": {"L": {"@a": 1, "#text": ""}}},
        {"O": {"L": {"#content": ["a", "b"], "a": 1}}},
        {"O": {"L": {"#text": [1, 2]}}},
        {"O": {"#text": [1, 2, 3], "b": 4, "#content": ["#text", "#text", "b", "#text"]}},
        {"O": {"L": [{"M": [1]}, 2]}},
    ],
)
def test_deltas_that_xml_can_not_show_are_refused(delta: Any) -> None:
    """What is read would change something else."""
    with pytest.raises(SowlineError, match="expected a delta that XML can show") as refused:
        XmlCodec(schema()).write_delta(orjson.dumps(delta))
    assert refused.value.reason == "bad message"


def test_an_array_of_one_is_shown_in_lists() -> None:
    """Because it is read as an array."""
    delta = orjson.dumps({"O": {"L": [1]}})
    assert XmlCodec(schema(lists=["/O/L"])).write_delta(delta) == (b"<O><L>1</L></O>", ())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[]", "expected namespaces and lists"),
        ("{", "expected namespaces and lists"),
        ('{"list": []}', "unknown field `list`"),
        ('{"namespaces": {"f": 1}}', "Expected `str`"),
        ('{"namespaces": {"xmlf": "u"}}', "got 'xmlf'"),
        ('{"namespaces": {"XmLf": "u"}}', "got 'XmLf'"),
        ('{"namespaces": {"a:b": "u"}}', "got 'a:b'"),
        ('{"namespaces": {"f": ""}}', "expected the URI of a namespace for the prefix 'f', got ''"),
        ('{"namespaces": {"f": "a b"}}', "got 'a b'"),
        ('{"namespaces": {"f": "http://www.w3.org/XML/1998/namespace"}}', "expected the URI"),
        ('{"namespaces": {"f": "http://www.w3.org/2000/xmlns/"}}', "expected the URI"),
        ('{"namespaces": {"f": "u", "g": "u"}}', "expected one prefix for 'u', got 'f' and 'g'"),
        ('{"lists": ["Leg"]}', "expected paths of elements in lists"),
        ('{"lists": ["/Order"]}', "below the root"),
        ('{"lists": ["/Order/@a"]}', "got '/Order/@a'"),
        ('{"lists": ["/Order[0]/Leg"]}', "got '/Order[0]/Leg'"),
        ('{"lists": ["[/Order/#text]"]}', "expected a path of elements"),
    ],
)
def test_wrong_options_are_refused(text: str, sentence: str) -> None:
    """When the codec is made."""
    with pytest.raises(SowlineError) as refused:
        XmlCodec(Schema(XML, text))
    assert refused.value.reason == "bad schema"
    assert sentence in refused.value.message


@pytest.mark.parametrize(
    ("earlier", "now"),
    [
        ({}, {"namespaces": F}),
        ({"namespaces": F}, {"namespaces": {**F, "g": "urn:g"}}),
        ({"namespaces": {"": "u"}}, {"namespaces": {"": "u", "p": "u"}}),
        ({}, {"lists": ["/Order/Leg"]}),
        ({"lists": ["/Order/Leg"]}, {}),
    ],
)
def test_options_that_read_earlier_records(earlier: Any, now: Any) -> None:
    """Prefixes may be added, and elements may become arrays, or no longer be."""
    XmlCodec(schema(**now)).check_reads(schema(**earlier))


@pytest.mark.parametrize(
    ("earlier", "now"),
    [
        ({"namespaces": F}, {}),
        ({"namespaces": F}, {"namespaces": {"f": "urn:other"}}),
        ({"namespaces": F}, {"namespaces": {"g": "urn:fix"}}),
        ({}, {"namespaces": {"": "urn:fix"}}),
        ({"namespaces": {"": "urn:fix"}}, {}),
    ],
)
def test_options_under_which_names_would_change(earlier: Any, now: Any) -> None:
    """Records have names with prefixes, which must keep their namespaces."""
    with pytest.raises(SowlineError, match="expected") as refused:
        XmlCodec(schema(**now)).check_reads(schema(**earlier))
    assert refused.value.reason == "incompatible schema"


@pytest.mark.parametrize(("earlier", "now"), [([], ["/O/L"]), (["/O/L"], [])])
def test_records_are_upgraded_to_other_lists(earlier: list[str], now: list[str]) -> None:
    """They are as if their message was read now."""
    message = "<O><L><Q>1</Q></L></O>"
    body = orjson.dumps(read(message, lists=earlier))
    assert orjson.loads(XmlCodec(schema(lists=now)).upgraded(body)) == read(message, lists=now)


@pytest.mark.parametrize("encoding", ["UTF-8", "utf-16", "UTF-16LE", "UTF-16BE", "ISO-8859-1", "us-ascii"])
def test_encodings_that_are_read(encoding: str) -> None:
    """The declaration names them."""
    text = "x" if encoding == "us-ascii" else "é"
    message = f'<?xml version="1.0" encoding="{encoding}"?><a>{text}</a>'
    assert read(message.encode(encoding)) == {"a": text}


@pytest.mark.parametrize(
    "encoding", ["windows-1252", "latin-1", "shift-jis", "idna", "rot13", "undefined", "x" * 70]
)
def test_other_encodings_are_refused(encoding: str) -> None:
    """What Python's codecs accept changes, and a replay must not."""
    with pytest.raises(
        SowlineError, match="expected the encoding UTF-8, UTF-16, ISO-8859-1 or US-ASCII"
    ) as refused:
        read(f'<?xml version="1.0" encoding="{encoding}"?><a/>')
    assert refused.value.reason == "bad message"


def test_records_are_what_their_schema_describes() -> None:
    """The JSON Schema is of all XML: texts, arrays and objects of nodes."""
    validator = jsonschema.Draft202012Validator(XmlCodec(schema()).described())
    for message in (ORDER, b"<!--x--><a>1<?b?>2<c/><c>3</c></a>", b"<a/>"):
        validator.validate(read(message))
    wrongs: list[Any] = [
        {},
        {"a": 1},
        {"a": [""]},
        {"a": {"@b": {}}},
        {"a": {"b": None}},
        {"#text": 1, "a": ""},
    ]
    for wrong in wrongs:
        assert not validator.is_valid(wrong)


def test_a_document_type_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything in it is read: no entities, no files, no network."""
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("the parser must not connect"))
    for subset in (
        "",
        '[<!ENTITY x "y">]',
        'SYSTEM "http://127.0.0.1:9/x.dtd"',
        'SYSTEM "file:///etc/passwd"',
        '[<!ENTITY x SYSTEM "file:///etc/passwd">]',
        '[<!ENTITY % x SYSTEM "http://127.0.0.1:9/x"> %x;]',
    ):
        for encoding in ("utf-8", "utf-16"):
            with pytest.raises(SowlineError, match="expected a message without a document type") as refused:
                read(f"<!DOCTYPE a {subset}><a>&x;</a>".encode(encoding))
            assert refused.value.reason == "bad message"


def test_deep_records_are_read_and_written() -> None:
    """Up to the levels that a record can have; arrays count too."""
    deep = "<a>" * 499 + "1" + "</a>" * 499
    body = XmlCodec(schema()).read(MessagePayload(deep.encode()), schema())
    read_object(body)
    assert XmlCodec(schema()).write(body).decode() == deep
    for levels, lists in ((500, []), (300, ["/a" * number for number in range(2, 300)])):
        message = "<a>" * levels + "1" + "</a>" * levels
        with pytest.raises(SowlineError, match="levels") as refused:
            read(message, lists=lists)
        assert refused.value.reason == "too deep"
