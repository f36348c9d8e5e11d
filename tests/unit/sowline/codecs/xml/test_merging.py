"""Deltas of XML: they merge by the paths of elements."""

from typing import Any

import pytest

from sowline.codecs.schema import MessagePayload
from sowline.codecs.xml import XmlCodec
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.xml.messages import schema


def merged(record: str, delta: str, **options: Any) -> str:
    """Return the XML of a record after a delta."""
    codec = XmlCodec(schema(**options))
    body = codec.read(MessagePayload(record.encode()), schema())
    changes = codec.read_delta(MessagePayload(delta.encode()), schema(), None)
    return codec.write(codec.completed(codec.merged(body, changes))).decode()


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
