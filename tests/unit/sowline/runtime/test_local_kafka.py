"""A local broker that can't be started."""

import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from sowline.runtime.local_kafka import LocalKafka


def test_a_program_that_cannot_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error is raised at once: nobody waits for a process that there is not."""

    def refuse(*given: object, **more: object) -> None:
        raise PermissionError("java")

    monkeypatch.setattr("sowline.runtime.local_kafka.subprocess.Popen", refuse)
    monkeypatch.setattr("sowline.runtime.local_kafka.kafka_jars", list)
    monkeypatch.setattr("sowline.runtime.local_kafka.find_java", lambda: Path(sys.executable))
    formatted: CompletedProcess[bytes] = CompletedProcess([], 0)
    monkeypatch.setattr("sowline.runtime.local_kafka.subprocess.run", lambda *given, **more: formatted)
    with pytest.raises(PermissionError, match="java"):
        LocalKafka(tmp_path).start()
