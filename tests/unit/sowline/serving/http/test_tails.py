"""The newest messages of a Kafka topic, as an answer shows them."""

from types import SimpleNamespace

import orjson
import pytest

from sowline.kafka.read_back import NewestMessages
from sowline.serving.http.tails import VALUE_BYTES_MAX, TailReader, TailRequest


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"x" * VALUE_BYTES_MAX + b"y", "x" * VALUE_BYTES_MAX),
        ("é".encode() * VALUE_BYTES_MAX, "é" * (VALUE_BYTES_MAX // 2)),
        (b"x" + "é".encode() * VALUE_BYTES_MAX, "x" + "é" * (VALUE_BYTES_MAX // 2 - 1)),
        (b"\xc3", "base64:ww=="),
    ],
    ids=["ascii", "between characters", "within a character", "short"],
)
async def test_a_cut_value_is_text(value: bytes, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it is cut within a character; a whole value that ends within one is not text."""
    fields = {"value": value, "key": None, "headers": None, "partition": 0, "offset": 7, "timestamp": (1, 0)}
    message = SimpleNamespace(**{name: lambda field=field: field for name, field in fields.items()})
    found = NewestMessages(messages=[message], begin=0, end=8, is_complete=True)  # type: ignore[list-item]
    monkeypatch.setattr("sowline.serving.http.tails.read_newest", lambda *given, **named: found)
    (described,) = orjson.loads(await TailReader({}).read(TailRequest("orders", (0,))))["messages"]
    assert described["value"] == shown
    assert described["bytes"] == len(value)
    assert described.get("cut", False) is (len(value) > VALUE_BYTES_MAX)
