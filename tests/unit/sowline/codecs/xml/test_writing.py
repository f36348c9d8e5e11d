"""JSON as XML: what is written, what becomes canonical, and what XML can not express."""

from typing import Any

import orjson
import pytest

from sowline.codecs.xml import XmlCodec
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.xml.messages import ORDER, ORDER_JSON, F, read, schema, write


def completed(document: Any, **options: Any) -> Any:
    """Return the canonical JSON of a document."""
    return orjson.loads(XmlCodec(schema(**options)).completed(orjson.dumps(document)))


def test_an_order_is_written_as_it_came() -> None:
    """Nothing of the example is lost."""
    assert write(ORDER_JSON).encode() == ORDER


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


def test_the_root_declares_namespaces_after_other_nodes() -> None:
    """Comments before the root stay before it."""
    document = {"#comment": "<f:a>", "f:a": {"@f:b": "&"}}
    namespaces = {"f": "urn:a?b&c"}
    assert write(document, namespaces=namespaces) == '<!--<f:a>--><f:a xmlns:f="urn:a?b&amp;c" f:b="&amp;"/>'
    assert read(write(document, namespaces=namespaces), namespaces=namespaces) == document
