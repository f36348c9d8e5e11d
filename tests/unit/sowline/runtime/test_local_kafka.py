"""A local broker that can't be started."""

from pathlib import Path

import pytest

from sowline.runtime.local_kafka import LocalKafka


def test_a_program_that_cannot_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error is raised at once: nobody waits for a process that there is not."""

    def refuse(*given: object) -> None:
        raise PermissionError("java")

    monkeypatch.setattr("sowline.runtime.local_kafka._popen", refuse)
    monkeypatch.setattr("sowline.runtime.local_kafka._java", lambda *given: ["java", *given])
    monkeypatch.setattr(LocalKafka, "_format", lambda broker: None)
    with pytest.raises(PermissionError, match="java"):
        LocalKafka(tmp_path).start()
