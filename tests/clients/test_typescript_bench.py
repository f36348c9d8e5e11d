"""The benchmark of the TypeScript client, with a few messages: its readers in Node, and what they would not miss."""

import pytest

from bench.servers import BenchQueryService, opened
from bench.typescript import (
    DELTAS,
    READERS,
    WHOLE,
    PlayingService,
    Recorder,
    Recording,
    measure,
    node_engine,
    play,
)

pytestmark = [pytest.mark.needs("node"), pytest.mark.usefixtures("package")]


@pytest.fixture(scope="module")
def recordings() -> dict[str, Recording]:
    """What a query service sends of ten records with thirty changes."""
    with opened(BenchQueryService) as service:
        recorder = Recorder(service, records=10)
        commands = {WHOLE: "sow_and_subscribe", DELTAS: "sow_and_delta_subscribe"}
        return {kind: recorder.record(command, changes=30) for kind, command in commands.items()}


@pytest.mark.parametrize("kind", [WHOLE, DELTAS])
def test_a_recording_is_a_group_and_its_changes(recordings: dict[str, Recording], kind: str) -> None:
    """Each of the changes is there, whole or as a delta of one field, up to the last."""
    recording = recordings[kind]
    (records,) = [message["records"] for message in recording.messages if message["command"] == "sow"]
    published = [message for message in recording.messages if message["command"] == "publish"]
    assert (len(records), len(published)) == (10, 30)
    assert published[-1]["bookmark"] == recording.last
    assert {message.get("delta", False) for message in published} == {kind == DELTAS}
    assert all(set(message["data"]) == {"order", "qty"} for message in published if kind == DELTAS)


@pytest.mark.parametrize("kind", [WHOLE, DELTAS])
def test_each_reader_gets_all(recordings: dict[str, Recording], kind: str) -> None:
    """A measurement of a reader that has missed something would fail."""
    recording = recordings[kind]
    with opened(PlayingService) as player:
        play(player, recording)
        for reader in READERS:
            figure = measure(node_engine(), player.port, recording, reader, is_delta=kind == DELTAS)
            assert figure.per_second > 0
        other = recording._replace(last="orders:0@1")
        with pytest.raises(AssertionError, match="has got"):
            measure(node_engine(), player.port, other, READERS[0], is_delta=kind == DELTAS)
