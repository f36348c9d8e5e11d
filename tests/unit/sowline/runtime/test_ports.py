"""Free ports: in their range, and none twice before it is bound."""

import pytest

from sowline.runtime import ports


def test_no_port_is_given_twice() -> None:
    """Two services that are being started never get the same."""
    given = [ports.free_port() for _ in range(500)]
    assert len(set(given)) == 500
    assert set(given) <= set(ports.PORTS)


def test_after_all_were_given_they_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that lives long does not run out of them."""
    monkeypatch.setattr(ports, "PORTS", ports.PORTS[: ports.TRIES_MAX + 10])
    monkeypatch.setattr(ports, "_given", set())
    assert len([ports.free_port() for _ in range(50)]) == 50
