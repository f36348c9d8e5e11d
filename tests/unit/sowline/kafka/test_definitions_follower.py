"""The follower of `topics.yaml`: it hands over what can take effect, and reports the rest."""

import threading
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from sowline.config.definition_changes import Followed
from sowline.config.fanouts import FanoutDefinition
from sowline.config.settings import Settings
from sowline.config.topic_definition import TopicDefinition
from sowline.config.topics import load_topics
from sowline.errors import SowlineError
from sowline.kafka import definitions_follower
from sowline.kafka.definitions_follower import AGAIN_SECONDS, DIFFERING_SECONDS, DefinitionsFollower

ONE = "topics: [{name: orders, key: /id}]"
TWO = "topics: [{name: orders, key: /id}, {name: trades, key: /id}]"
OTHER_KEY = "topics:\n- name: orders\n  key: /other\n- name: trades\n  key: /id\n"


class FakeCluster:
    """A Kafka that refuses some topics."""

    def __init__(self) -> None:
        self.refuses: set[str] = set()
        self.ensured: list[str] = []

    def ensure_topic(self, topic: TopicDefinition) -> None:
        """Note the topic."""
        self._ensure(topic.name)

    def ensure_fanout(self, fanout: FanoutDefinition, source: TopicDefinition) -> None:
        """Note the fanout."""
        self._ensure(f"{fanout.name} of {source.name}")

    def _ensure(self, name: str) -> None:
        if name in self.refuses:
            raise SowlineError("bad topic", f"Kafka topic {name} has 1 partition")
        self.ensured.append(name)


class House:
    """A follower over a file, without its thread."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = directory / "topics.yaml"
        self.cluster, self.taken = FakeCluster(), list[Followed]()
        monkeypatch.setattr(definitions_follower, "Cluster", lambda *_: self.cluster)
        self.write(ONE)
        self.differing = list[str]()
        self.follower = DefinitionsFollower(
            Settings(config=self.path),
            load_topics(self.path),
            threading.Event(),
            self.taken.append,
            log_differences=lambda: self.differing,
        )
        self.now = 0.0

    def write(self, text: str) -> None:
        """Replace the file, as an editor or a ConfigMap does."""
        new = self.path.with_suffix(".new")
        new.write_text(text)
        new.replace(self.path)

    def look(self, seconds: float = 1.0) -> list[str]:
        """Let the follower look twice, and return the names of the topics that it runs by."""
        self.now += seconds
        self.follower.look(self.now)
        self.follower.look(self.now)
        return [topic.name for topic in self.follower.topics.topics]


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    """Return a follower of a file with one topic."""
    return House(tmp_path, monkeypatch)


def test_a_new_topic_is_handed_over_once_kafka_has_it(house: House) -> None:
    """Nothing happens while the file is the same."""
    assert (house.look(), house.taken) == (["orders"], [])
    house.write(TWO)
    assert house.look() == ["orders", "trades"]
    assert house.cluster.ensured == ["trades"]
    assert [str(change) for change in house.taken[0].changes] == ["trades new"]
    assert (house.look(), len(house.taken)) == (["orders", "trades"], 1)


def test_a_file_that_changes_before_the_first_look_is_taken(house: House) -> None:
    """The service has read it already when the follower begins."""
    house.write(TWO)
    assert house.look() == ["orders", "trades"]


def test_what_is_refused_is_named_with_its_line(house: House) -> None:
    """The rest of the file takes effect; the reason goes once the file is right again."""
    house.look()
    house.write(OTHER_KEY)
    with capture_logs() as logs:
        assert house.look() == ["orders", "trades"]
    assert house.follower.topics.named("orders").declared.key == ("/id",)
    [refused] = [line for line in logs if line["event"] == "definition refused"]
    assert f"{house.path}, line 3: topics.0.key (orders): orders (key) needs a rebuild" in refused["why"]
    assert "orders (key) needs a rebuild" in (house.follower.note() or "")
    assert house.follower.details()["definitions"]["not_in_effect"][0].startswith("orders (key)")
    [metric, _] = house.follower.metrics()
    assert metric.samples[0].value == 1
    house.write(TWO)
    house.look()
    assert house.follower.note() is None


def test_a_file_that_can_not_be_read_leaves_the_old_one(house: House) -> None:
    """In effect, until there is one that can be read."""
    house.look()
    house.write("topics: nonsense")
    assert house.look() == ["orders"]
    assert "expected a list" in (house.follower.note() or "")
    house.path.unlink()
    assert house.look() == ["orders"]
    house.write(TWO)
    assert (house.look(), house.follower.note()) == (["orders", "trades"], None)


def test_a_file_that_breaks_before_the_first_look(house: House) -> None:
    """It is read once it is right."""
    house.path.unlink()
    assert (house.look(), house.look()) == (["orders"], ["orders"])
    assert "No such file" in (house.follower.note() or "")
    house.write(TWO)
    assert house.look() == ["orders", "trades"]


def test_what_kafka_refuses_is_tried_again(house: House) -> None:
    """Without another change of the file: somebody adds the partitions."""
    house.cluster.refuses = {"trades"}
    house.look()
    house.write("topics: [{name: orders, key: /id, expiration: 1h}, {name: trades, key: /id}]")
    assert house.look() == ["orders"]
    assert house.follower.topics.named("orders").limits.expiration == 3_600_000
    assert "trades impossible: Kafka topic trades has 1 partition" in (house.follower.note() or "")
    house.cluster.refuses = set()
    assert house.look() == ["orders"]
    assert house.look(AGAIN_SECONDS) == ["orders", "trades"]
    assert house.follower.note() is None


def test_a_file_that_is_being_written_waits(house: House) -> None:
    """Half of a file may be valid: the topics of the other half are not removed."""
    house.write(TWO)
    house.look()
    house.write(ONE)
    house.follower.look(house.now)
    house.write(TWO + "\n")
    assert house.look() == ["orders", "trades"]
    assert len(house.taken) == 1


def test_a_service_that_fails_to_take_a_change_says_so(house: House) -> None:
    """It goes on with what it has, and its health names the error."""

    def fail(followed: Followed) -> None:
        raise RuntimeError("no room")

    follower = DefinitionsFollower(
        Settings(config=house.path), house.follower.topics, threading.Event(), fail
    )
    house.write(TWO)
    with capture_logs() as logs:
        follower.start()
        follower.join()
    assert [line["event"] for line in logs] == ["definitions no longer followed"]
    assert "no room" in (follower.note() or "")
    assert [topic.name for topic in follower.topics.topics] == ["orders"]


def test_fanouts_get_their_topics_too(house: House) -> None:
    """And a fanout that is removed is handed over without a question to Kafka."""
    house.look()
    house.write(ONE + "\nfanouts: [{name: risk, topic: orders}]")
    house.look()
    assert house.cluster.ensured == ["risk of orders"]
    house.write(ONE)
    house.look()
    assert [str(one).partition(":")[0] for one in house.taken[-1].changes] == ["risk removed"]


def test_what_the_log_has_another_definition_of_is_noted(house: House) -> None:
    """Not at once, for the owner may be about to read the same file; and only as long as it lasts."""
    house.differing = ["orders (records_max): the log has another definition"]
    house.follower.look_at_the_log(1.0)
    house.follower.look_at_the_log(DIFFERING_SECONDS)
    assert house.follower.note() is None
    assert house.follower.details()["definitions"]["log_differences"] == house.differing
    with capture_logs() as logs:
        house.follower.look_at_the_log(1.0 + DIFFERING_SECONDS)
        house.follower.look_at_the_log(2.0 + DIFFERING_SECONDS)
    assert [line["why"] for line in logs] == house.differing
    assert house.follower.note() == f"older or newer than the log: {house.differing[0]}"
    house.differing = []
    house.follower.look_at_the_log(3.0 + DIFFERING_SECONDS)
    assert house.follower.note() is None
