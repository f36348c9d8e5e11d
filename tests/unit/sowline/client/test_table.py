"""What a client makes of a stream of Arrow."""

import sys

import pyarrow as pa
import pytest

from sowline.client.table import require_whole, table_reader
from sowline.errors import SowlineError
from sowline.wire.media_types import ARROW_MESSAGE


def test_a_whole_stream() -> None:
    """It is read as pyarrow writes it, and no byte is copied."""
    written = pa.table({"id": [1, 2]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, written.schema) as writer:
        writer.write_table(written)
    assert table_reader()(sink.getvalue().to_pybytes()) == written


def test_an_error_at_the_end() -> None:
    """It is raised as it would be from an answer that is an error."""
    text = b'{"reason":"result too large","message":"expected less"}'
    with pytest.raises(SowlineError) as raised:
        require_whole(b"head" + ARROW_MESSAGE + len(text).to_bytes(4, "little") + text)
    assert (raised.value.reason, raised.value.message) == ("result too large", "expected less")


@pytest.mark.parametrize("stream", [b"", b"half of a table", ARROW_MESSAGE + b"\0\0\0\x02[]"])
def test_a_part_of_a_stream(stream: bytes) -> None:
    """It is no table."""
    with pytest.raises(SowlineError, match="expected a whole table") as raised:
        require_whole(stream)
    assert raised.value.reason == "not connected"


def test_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the command that installs it."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SowlineError, match=r"sowline\[arrow\]"):
        table_reader()
