"""The members that stand for the nodes of an XML element."""

import pytest

from sowline.codecs.xml.nodes import is_element


@pytest.mark.parametrize("member", ["Order", "f:Order", "_", "é", "$date", ""])
def test_names_are_elements(member: str) -> None:
    """Also names that no XML has: a client that writes them gets the error of an element."""
    assert is_element(member)


@pytest.mark.parametrize("member", ["@id", "#text", "#comment", "#content", "?xml-stylesheet", "#other", "@"])
def test_marked_members_are_no_elements(member: str) -> None:
    """Their first character says that they are attributes, other nodes, or reserved."""
    assert not is_element(member)
