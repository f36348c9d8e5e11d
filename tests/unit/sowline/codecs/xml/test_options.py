"""The options of XML topics: what is wrong, and what may change."""

from typing import Any

import pytest

from sowline.codecs.schema import XML, Schema
from sowline.codecs.xml import XmlCodec
from sowline.errors import SowlineError
from tests.unit.sowline.codecs.xml.messages import F, schema


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
