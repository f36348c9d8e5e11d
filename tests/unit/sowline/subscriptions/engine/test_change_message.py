"""The messages `publish` and `oof`."""

import orjson
import pytest

from sowline.subscriptions.engine.change_message import change_message, with_relayed
from sowline.subscriptions.engine.delivery import Form
from sowline.subscriptions.engine.subscription import Delivery


@pytest.mark.parametrize(
    ("form", "fields"),
    [
        (Form(), {"sow_key": "7"}),
        (Form(sow_key=False), {}),
        (Form(timestamp=True), {"sow_key": "7", "timestamp": "1970-01-01T00:00:01.000000Z"}),
    ],
)
def test_the_form_decides_what_is_next_to_the_body(form: Form, fields: dict[str, str]) -> None:
    """The body, the topic and the bookmark are in each message."""
    outcome = Delivery("publish", b"unused", correlation="c")
    text = change_message(["s"], "orders", form, outcome, b"7", b'{"a":1}', 1000, "orders:0@5", removed=None)
    assert orjson.loads(text) == {
        "command": "publish",
        "sids": ["s"],
        "topic": "orders",
        "bookmark": "orders:0@5",
        "correlation_id": "c",
        "data": {"a": 1},
        **fields,
    }


def test_a_delta_names_what_it_removes() -> None:
    """And that the next message belongs to it, if one does."""
    outcome = Delivery("oof", b"unused", "match")
    text = change_message(["s"], "o", Form(), outcome, b"7", b"{}", 0, "o:0@5", removed=("/a",), more=True)
    found = orjson.loads(text)
    assert (found["delta"], found["removed"], found["more"], found["reason"]) == (True, ["/a"], True, "match")


def test_a_gateway_gets_more_of_a_record() -> None:
    """As the last field of the message."""
    assert with_relayed(b'{"data":{}}', b"[1]") == b'{"data":{},"relayed":[1]}'
