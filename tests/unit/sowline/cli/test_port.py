"""The port of `sowline up`."""

import socket

import click
import pytest

from sowline.cli.services import Port
from sowline.errors import SowlineError
from sowline.runtime import local_stack
from sowline.runtime.local_stack import LOOPBACK, _next_free


@pytest.mark.parametrize(("text", "port"), [("0", 0), ("8080", 8080), ("auto", None)])
def test_a_port_is_a_number_or_auto(text: str, port: int | None) -> None:
    """`auto` is no number: the next free one is found later."""
    assert Port().convert(text, None, None) == port


@pytest.mark.parametrize("text", ["65536", "-1", "http", ""])
def test_another_text_is_refused(text: str) -> None:
    """With a sentence."""
    with pytest.raises(click.BadParameter, match="expected a port from 0 to 65535, or auto"):
        Port().convert(text, None, None)


def test_a_port_that_is_taken_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one is used; if all are taken, that is an error."""
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(local_stack, "USUAL_PORT", port)
        with _next_free(LOOPBACK) as found:
            assert found.getsockname()[1] > port
        monkeypatch.setattr(local_stack, "PORTS_TRIED", 1)
        with pytest.raises(SowlineError, match=f"expected a free port from {port} to {port}, got none"):
            _next_free(LOOPBACK)
