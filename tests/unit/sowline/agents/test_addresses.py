"""Addresses of changes: read as they are written, and everything else refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.agents.addresses import address_of, read_address
from sowline.agents.arguments import ChangesArguments
from sowline.errors import SowlineError

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(topic=texts.filter(bool), filter=texts, after=texts)
def test_an_address_is_read_as_it_is_written(topic: str, filter: str, after: str) -> None:
    """Whatever characters its parts have."""
    expected = ChangesArguments(topic=topic, filter=filter, after=after)
    assert read_address(address_of(topic, filter=filter, after=after)) == expected


def test_an_address_without_parameters() -> None:
    """It is in the list of resources."""
    assert address_of("sales/eu") == "sowline://topics/sales%2Feu/changes"
    assert read_address("sowline://topics/sales%2Feu/changes") == ChangesArguments(topic="sales/eu")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "orders",
        "file:///etc/passwd",
        "sowline://topics//changes",
        "sowline://topics/orders",
        "sowline://topics/orders/fields",
        "sowline://topics/orders/changes/",
        "sowline://other/orders/changes",
        "sowline://topics/orders/changes#part",
        "sowline://topics/orders/changes?color=red",
        "sowline://topics/orders/changes?limit=5",
        "sowline://topics/orders/changes?filter",
        "sowline://topics/orders/changes?after=a&after=b",
        "sowline://topics/%ff/changes",
        "sowline://topics/orders/changes?filter=%ff",
        "sowline://[topics/orders/changes",
    ],
)
def test_what_is_no_address(text: str) -> None:
    """The refusal shows the form."""
    with pytest.raises(SowlineError) as refused:
        read_address(text)
    assert refused.value.reason == "bad request"
