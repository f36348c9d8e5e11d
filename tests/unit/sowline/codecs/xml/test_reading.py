"""XML as canonical JSON: elements, attributes and text by their paths, namespaces, lists and encodings."""

import socket
from typing import Any

import pytest

from sowline.codecs.schema import MessagePayload
from sowline.codecs.xml import XmlCodec
from sowline.errors import SowlineError
from sowline.model.body import read_object
from sowline.model.path import parse_path
from tests.unit.sowline.codecs.xml.messages import ORDER, ORDER_JSON, F, read, schema, write


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
