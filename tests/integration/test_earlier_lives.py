"""A topic that was dropped and restored from a backup of an earlier life, over a real Kafka."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from sowline import Client
from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.kafka.admin import ensure_topics
from sowline.kafka.leftovers import Leftovers
from tests.integration.operated import Operated
from tests.integration.recovery_rig import PARTITIONS, lose_store
from tests.integration.services import Service

OTHERS = parse_topics("topics: [{name: none-of-these, key: /id}]")


@pytest.fixture
def rig(kafka: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Operated:
    """A topic of the test's own, without records."""
    monkeypatch.setenv("SOWLINE_GROUP", prefix)
    rig = Operated(kafka, f"{prefix}lives", tmp_path)
    ensure_topics(rig.settings.kafka_client, rig.topics)
    return rig


def live(rig: Operated, start: int) -> str:
    """Write to the topic, and return a bookmark of its end."""
    ensure_topics(rig.settings.kafka_client, rig.topics)
    rig.write(start)
    positions = rig.work().positions
    return f"{rig.name}:" + ",".join(
        f"{number}@{positions[rig.topic_partition(number)]}" for number in range(PARTITIONS)
    )


def drop(rig: Operated, *, with_log: bool = True) -> None:
    """Drop the topic, and all local state."""
    Leftovers.of_topic(rig.settings, OTHERS, rig.name, None).delete(rig.settings, with_log=with_log)
    lose_store(rig)


@contextmanager
def served(rig: Operated) -> Iterator[Client]:
    """Lend a client of a query service that has the topic."""
    rig.arguments("dump")
    service = Service(
        "query_service", rig.directory, kafka=rig.settings.kafka, config=rig.directory / "topics.yaml"
    )
    with closing(service), Client(service.start().wait_ready().url) as client:
        yield client


def test_no_bookmark_of_an_earlier_life_is_valid(rig: Operated, capfd: pytest.CaptureFixture[str]) -> None:
    """Bookmarks of what came after a backup have expired, in its own life and in each later one."""
    bookmarks = [live(rig, 0)]
    assert rig.run(capfd, "backup", str(rig.directory / "b"))[0] == 0
    bookmarks += [live(rig, 12)]
    for start in (24, 36):
        drop(rig)
        bookmarks += [live(rig, start)]
    drop(rig)
    code, text = rig.run(capfd, "restore", str(rig.directory / "b"))
    assert code == 0, text
    bookmarks += [live(rig, 48), live(rig, 60)]
    *ended, now, _ = bookmarks
    with served(rig) as client:
        for bookmark in ("epoch", *ended):
            with pytest.raises(SowlineError) as expired:
                next(iter(client.subscribe(rig.name, bookmark=bookmark)))
            assert expired.value.reason == "bookmark_expired"
        assert next(iter(client.subscribe(rig.name, bookmark=now))).command == "publish"
