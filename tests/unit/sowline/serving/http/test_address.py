"""Addresses of records: which part of a path is the topic, and which the key."""

import pytest

from sowline.errors import SowlineError
from sowline.serving.http.address import Address, read_address

TOPICS = {"orders", "eu/orders", "odd/records/orders"}


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/v1/topics/orders/records/a", Address("orders", "a")),
        ("/v1/topics/eu/orders/records/a%2Fb", Address("eu/orders", "a/b")),
        ("/v1/topics/eu%2Forders/records/%5B%22a%22,%22b%22%5D", Address("eu/orders", '["a","b"]')),
        ("/v1/topics/orders/records/", Address("orders", "")),
        ("/v1/topics/orders/records/%C3%A9%25?", Address("orders", "é%?")),
        ("/v1/topics/orders/records/a/timeline", Address("orders", "a", "timeline")),
        ("/v1/topics/orders/records/a%2Ftimeline", Address("orders", "a/timeline")),
        ("/v1/topics/orders/records/records/timeline", Address("orders", "records", "timeline")),
        ("/v1/topics/odd/records/orders/records/a", Address("odd/records/orders", "a")),
        ("/v1/topics/none/records/a", Address("none", "a")),
    ],
)
def test_an_address(path: str, address: Address) -> None:
    """Slashes that are encoded belong to the key; where it could be read in two ways, to a topic that there is."""
    assert read_address(path, TOPICS) == address


@pytest.mark.parametrize(
    "path", ["/v1/topics/orders/records/a/b/c", "/v1/topics/orders", "/v1/topics/orders/records/%FF"]
)
def test_no_address(path: str) -> None:
    """A key with slashes as they are, no key, and what is no text."""
    with pytest.raises(SowlineError) as error:
        read_address(path, TOPICS)
    assert error.value.reason == "bad request"
