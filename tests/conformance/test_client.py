"""The Python client does what the cases for clients expect."""

from pathlib import Path

import pytest

from tests.conformance.client_cases import Player, files, read


def test_there_are_cases() -> None:
    """The test below tests something."""
    assert len(files()) > 10


@pytest.mark.parametrize("file", files(), ids=lambda file: file.stem)
async def test_a_case(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line of it is what the client sends and shows."""
    player = Player()
    monkeypatch.setattr("sowline.client.connection.connect", player.connect)
    lines = read(file)
    assert await player.play(lines) == lines
