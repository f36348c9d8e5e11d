"""A topic whose state the command line operates on, over a real Kafka."""

from pathlib import Path

import pytest

from sowline_materializer.admin.commands import operate
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.core.record import Record
from tests.integration.recovery_rig import PARTITIONS, Rig

MORE = "key_domain: k, expiration: enabled"


class Operated(Rig):
    """A topic, and the file in which commands read its definition."""

    def __init__(self, kafka: str, name: str, directory: Path, more: str = MORE) -> None:
        super().__init__(kafka, name, directory / "sow", more)
        self.directory = directory

    def define(self, more: str) -> None:
        """Say what is defined, for the workers and commands to come."""
        super().define(more)
        self.text = f"topics: [{{name: {self.name}, key: /id, partitions: {PARTITIONS}, {more}}}]"

    def states(self) -> list[tuple[dict[bytes, Record], Checkpoint]]:
        """Return what the stores hold; nobody may have them open."""
        return [self.state(partition) for partition in range(PARTITIONS)]

    def records(self) -> list[dict[bytes, Record]]:
        """Return the records that the stores hold."""
        return [records for records, _ in self.states()]

    def arguments(self, command: str, *more: str, topic: str = "") -> list[str]:
        """Return the arguments of a command about the topic, as it is defined now."""
        config = self.directory / "topics.yaml"
        config.write_text(self.text)
        where = [
            "--kafka",
            self.settings.kafka,
            "--config",
            str(config),
            "--data-dir",
            str(self.settings.data_dir),
        ]
        return [command, topic or self.name, *more, *where]

    def run(self, capfd: pytest.CaptureFixture[str], command: str, *more: str) -> tuple[int, str]:
        """Run a command in this process and return its exit code and what it has written."""
        capfd.readouterr()
        code = 0
        try:
            operate.main(self.arguments(command, *more), prog_name="sowline")
        except SystemExit as ended:
            code = int(ended.code or 0)
        out, err = capfd.readouterr()
        return code, out + err
