"""A second broker in the cluster of a local Kafka: partitions that only it has lose their leader with it."""

import re
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from sowline.runtime.local_kafka import LocalKafka
from tests.waiting import SECONDS_MAX, wait_for

FIRST, SECOND = 1, 2
"""The ids of the brokers."""


class SecondBroker(LocalKafka):
    """A broker that joins the cluster of a local Kafka, which stays the controller."""

    def __init__(self, data_dir: Path, first: LocalKafka) -> None:
        super().__init__(data_dir)
        self._first = first

    def _write_config(self) -> None:
        super()._write_config()
        at = f"PLAINTEXT://{self.bootstrap}"
        ours = {"process.roles": "broker", "node.id": SECOND, "listeners": at, "advertised.listeners": at}
        text = (self._first.data_dir / "server.properties").read_text(encoding="utf-8")
        for name, value in ours.items():
            text = re.sub(f"^{re.escape(name)}=.*$", f"{name}={value}", text, flags=re.MULTILINE)
        (self.data_dir / "server.properties").write_text(text, encoding="utf-8")

    def _format(self) -> None:
        """Take the cluster's identity, by the file that Kafka's own tool would write."""
        if self._meta_path.exists():
            return
        of_first = (self._first.data_dir / "data" / "meta.properties").read_text(encoding="utf-8")
        kept = [line for line in of_first.splitlines() if line.startswith(("version=", "cluster.id="))]
        self._meta_path.parent.mkdir(exist_ok=True)
        self._meta_path.write_text("\n".join([*kept, f"node.id={SECOND}", ""]), encoding="utf-8")


def create_on_both(kafka: str, topics: Mapping[str, tuple[int, dict[str, str]]]) -> None:
    """Create Kafka topics, given by their partitions and settings; each broker has every other partition, beginning
    with the first one.
    """
    admin = AdminClient({"bootstrap.servers": kafka})
    wait_for(
        lambda: len(admin.list_topics(timeout=SECONDS_MAX).brokers) == SECOND, "Kafka to know both brokers"
    )
    new = [
        NewTopic(
            name, count, replica_assignment=[[(FIRST, SECOND)[n % 2]] for n in range(count)], config=config
        )
        for name, (count, config) in topics.items()
    ]
    for made in admin.create_topics(new).values():
        made.result(SECONDS_MAX)
