"""Messages of fanouts as events of a history."""

import json

from sowline.check.fanouts import written_message
from sowline.check.history import MessageRead


def test_a_delta() -> None:
    """The SOW key is the key in Kafka, and all else is in the header."""
    about = {
        "command": "publish",
        "sow_key": "another",
        "bookmark": "orders:0@7",
        "after": "orders:0@5",
        "timestamp": "2026-11-21T12:00:00Z",
        "correlation_id": "writer1-2",
        "delta": True,
        "removed": ["/late"],
    }
    assert written_message("r", 1.5, b"1", b'{"id":1,"qty":2}', [("sow", json.dumps(about).encode())]) == (
        MessageRead(
            "r",
            "publish",
            1.5,
            "orders:0@7",
            "1",
            {"id": 1, "qty": 2},
            delta=True,
            removed=("/late",),
            timestamp="2026-11-21T12:00:00Z",
            correlation_id="writer1-2",
        )
    )


def test_an_oof() -> None:
    """It has a reason."""
    header = b'{"command":"oof","reason":"match","bookmark":"orders:0@7"}'
    assert written_message("r", 1.5, b"1", b'{"id":1}', [("sow", header)]) == MessageRead(
        "r", "oof", 1.5, "orders:0@7", "1", {"id": 1}, reason="match"
    )


def test_a_message_of_somebody_else() -> None:
    """It has no bookmark, so that no write explains it."""
    for value, header in ((None, b"{"), (b"[1]", b"7"), (b"\xff", b"")):
        assert written_message("r", 1.5, b"\xff", value, [("sow", header)]) == MessageRead(
            "r", "publish", 1.5, "", "\ufffd", {}
        )
