"""Warm copies: what a follower takes, where it asks to be loaded again, and what lies on the disk meanwhile."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from structlog.testing import capture_logs

from sowline.changes.change import AGAIN, RESET, Change
from sowline.changes.changes_reader import ChangesMissing
from sowline.changes.event import Event
from sowline.changes.progress import PROGRESS_KEY, Progress
from sowline.commands.command import Origin
from sowline.commands.stored_format import UnknownFormat
from sowline.config.topic_definition import define_topic
from sowline.kafka.admin import Cluster
from sowline.kafka.cluster_answer import ClusterAnswer
from sowline.model.limits import Limits
from sowline.model.position import Position
from sowline_materializer.core.checkpoint import EVERYTHING, Checkpoint
from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.partition.changes_follower import ChangesFollower
from sowline_materializer.standby.standby import Standby
from sowline_materializer.standby.warm_copy import ReadEvent, WarmCopy
from sowline_materializer.store.integrity import survey
from sowline_materializer.store.rocksdb import RocksStore
from tests.memory_store import MemoryStore
from tests.property.world import dump

DEFINITION = define_topic(name="orders", key="/id", repeat_window="50ms")


def change(
    offset: int,
    key: bytes = b"1",
    body: bytes | None = b'{"id":1}',
    *,
    after: Position | None = None,
    era: int = 0,
    **given: Any,
) -> Change:
    """Return a change."""
    position = Position(era, offset)
    before = after or Position(era, offset - 1)
    return Change(key, body, b'{"id":1}', position, before, given.pop("op", "publish"), 100 + offset, **given)


def progress(offset: int, era: int = 0, after: Position | None = None, **given: Any) -> Progress:
    """Return a progress event."""
    position = Position(era, offset)
    return Progress(
        position, after or Position(0, -1), 0, {}, DEFINITION.digest, "log", 100 + offset, {}
    )._replace(**given)


def follower(*events: Event) -> tuple[MemoryStore, ChangesFollower]:
    """Return a follower that began with nothing and has taken these in, each in a portion of its own."""
    store = MemoryStore()
    follower = ChangesFollower(DEFINITION, store, Checkpoint(definition=DEFINITION.digest, log_id="log"), [])
    for offset, event in enumerate(events, 1):
        follower.follow([event], offset)
    return store, follower


# the follower


def test_each_portion_is_a_state_to_go_on_from() -> None:
    """Records, their tally and the head with its place in the changes are written together."""
    store, one = follower(progress(-1), change(0), change(1, b"2"), change(2, body=None), progress(5))
    assert set(dump(store, 0, 0)) == {b"2"}
    assert survey(store).checksum == store.checksum()
    assert Checkpoint.decode(store.checkpoint() or b"") == one.checkpoint
    assert (one.checkpoint.position, one.checkpoint.last_change) == (Position(0, 5), Position(0, 2))
    assert (
        one.checkpoint.time,
        one.checkpoint.records,
        one.checkpoint.changes_end,
        one.checkpoint.next_offset,
    ) == (105, 1, 5, 6)


def test_what_progress_events_tell_is_kept() -> None:
    """Limits, origins and the log come from them; the origins of an era that has ended are forgotten."""
    fields: dict[str, Any] = {"origins": {3: 7}, "limits": Limits(records_max=9), "numbers_since": 4}
    _, one = follower(progress(1, **fields), change(2, origin=Origin(3, 8)), change(3, origin=Origin(2, 1)))
    assert (one.checkpoint.origins, one.checkpoint.limits.records_max, one.checkpoint.numbers_since) == (
        {3: 8, 2: 1},
        9,
        4,
    )
    one.follow([progress(-1, 1, Position(0, 3), log_id="other")], 4)
    assert (one.checkpoint.origins, one.checkpoint.log_id, one.checkpoint.position) == (
        {},
        "other",
        Position(1, -1),
    )


def test_the_word_of_an_owner_that_knows_another_topic_counts_nothing() -> None:
    """But compaction would keep it, so the true one is to be written again."""
    follower = ChangesFollower(
        DEFINITION, MemoryStore(), Checkpoint(definition=DEFINITION.digest, changes_id="this"), []
    )
    follower.follow([progress(2, changes_id="this"), progress(9, changes_id="old")], 2)
    assert (follower.checkpoint.position, follower.checkpoint.stale_keys) == (Position(0, 2), {PROGRESS_KEY})


def test_a_log_record_cut_short_is_next_again() -> None:
    """A worker that takes over within the changes of one log record reads that record again."""
    _, one = follower(change(0, last=False))
    assert (one.checkpoint.complete, one.checkpoint.next_offset) == (False, 0)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (change(9), "expected what follows 3"),
        (progress(9, after=Position(0, 8)), "expected what follows 3"),
        (change(4, body=None, after=Position(0, 1), op=RESET), "was reset and begins without its records"),
        (change(0, era=1, after=Position(0, 1)), "begin of an era"),
        (change(4, after=Position(0, 4), op=AGAIN), "expected what follows 3"),
        (change(1, b"9", op=AGAIN), "as new as"),
        (change(3, op=AGAIN), "as new as"),
    ],
)
def test_in_doubt_there_is_a_gap(event: Change | Progress, why: str) -> None:
    """What can't be the next step of this state, or tells more of a record than it has, changes nothing."""
    store, one = follower(progress(-1), change(0), change(1, b"2", body=b'{"id":2}'), progress(3))
    before = one.checkpoint, dump(store, 0, 0)
    with pytest.raises(ChangesMissing, match=why):
        one.follow([event], 9)
    assert (one.checkpoint, dump(store, 0, 0)) == before


@pytest.mark.parametrize(
    ("late", "stale_keys"),
    [
        ([change(0)], {b"1"}),
        ([change(0), change(2)], set()),
        ([change(0), change(2, op=AGAIN)], set()),
        ([change(1, b"2", None)], {b"2"}),
        ([change(1, b"2", None), change(2, b"2", None, op=AGAIN)], set()),
        ([progress(1)], {PROGRESS_KEY}),
        ([progress(1), progress(2)], set()),
    ],
)
def test_what_compaction_may_keep_wrongly_is_noted(late: list[Event], stale_keys: set[bytes]) -> None:
    """Keys whose last event is not their newest, until they are written again."""
    store, one = follower(progress(-1), change(0), change(1, b"2", None), change(2))
    before = dump(store, 0, 0)
    for offset, event in enumerate(late, 5):
        one.follow([event], offset)
    assert one.checkpoint.stale_keys == stale_keys
    assert dump(store, 0, 0) == before


def test_what_comes_late_from_an_ended_era_is_to_be_written_again() -> None:
    """Even a record's newest event: a loader drops it, for it stands behind the next era's begin."""
    _, one = follower(progress(-1), change(0), progress(-1, 1, Position(0, 0)))
    one.follow([change(0)], 5)
    assert one.checkpoint.stale_keys == {b"1"}
    one.follow([change(0, op=AGAIN, emitted_in=1)], 6)
    assert one.checkpoint.stale_keys == set()


def test_deleted_records_are_remembered_for_the_window() -> None:
    """A copy forgets them when its owner does, however long it stays a copy."""
    numbers = {"p": (1, 0, 101)}
    gone = change(1, body=None, numbers=numbers)
    store, one = follower(progress(-1), change(0, numbers=numbers), gone)
    one.follow([progress(50, limits=DEFINITION.limits)], 4)
    assert set(dump(store, 0, 0)) == {b"1"} == {key for key, _ in store.scan()}
    one.follow([progress(52, limits=DEFINITION.limits)], 5)
    assert list(store.scan()) == []
    assert store.checksum() == survey(store).checksum


# the copy


@pytest.fixture
def copies(tmp_path: Path) -> Iterator["Copies"]:
    """Copies of one partition on a real disk."""
    copies = Copies(tmp_path / "0")
    yield copies
    copies.close()


class Copies:
    """The copy of one partition, begun again and again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.changes_id = "a"
        self.copy: WarmCopy | None = None

    def begun(self, store: RocksStore | None = None) -> WarmCopy:
        """Return a copy that has checked what it has found."""
        self.close()
        self.copy = WarmCopy(DEFINITION, 0, self.path, lambda topic: self.changes_id, store)
        self.copy.begin()
        while self.copy.reads_from is None:
            self.copy.check()
        return self.copy

    def loaded(self, *events: Event) -> WarmCopy:
        """Return a copy that has loaded these events and follows."""
        copy = self.begun()
        assert not copy.take(written(*events), len(events))
        while copy.reads_from is None:
            copy.check()
        assert copy.is_warm
        return copy

    def close(self) -> None:
        """Let go of the files."""
        if self.copy is not None:
            self.copy.close()


def written(*events: Event, start: int = 0) -> list[ReadEvent]:
    """Return events with their offsets."""
    return [ReadEvent(offset, event) for offset, event in enumerate(events, start)]


THREE = (progress(-1), change(0), change(1, b"2", b'{"id":2}'))


def test_a_copy_is_loaded_then_follows_then_is_handed_over(copies: Copies) -> None:
    """What is handed over is open, and holds all that was taken in."""
    copy = copies.loaded(*THREE)
    assert copy.reads_from == 3
    assert copy.take(written(change(2, body=None), start=3), 4)
    store = copy.hand_over()
    assert store is not None
    assert [key for key, _ in store.scan()] == [b"2"]
    assert Checkpoint.decode(store.checkpoint() or b"").changes_end == 4
    store.close()


def test_a_copy_goes_on_from_what_it_was(copies: Copies) -> None:
    """After a restart it is checked, and follows from where it stood; a store that is handed to it likewise."""
    copies.loaded(*THREE)
    again = copies.begun()
    assert (again.is_warm, again.reads_from) == (True, 3)
    store = again.hand_over()
    assert (copies.begun(store).is_warm, copies.copy and copies.copy.reads_from) == (True, 3)


def test_an_unfinished_load_is_not_handed_over(copies: Copies) -> None:
    """Where a load has not come to its end, or does not say where it stands, there is nothing yet."""
    copy = copies.begun()
    assert copy.take(written(*THREE[:2]), 3)
    assert (copy.is_warm, copy.has_caught_up, copy.hand_over()) == (False, False, None)
    copy = copies.begun()
    assert copy.take(written(*THREE[1:]), 2)
    assert (copy.is_warm, copy.has_caught_up, copy.hand_over()) == (False, True, None)
    assert not RocksStore.exists(copies.path)


def test_what_is_not_checked_yet_is_not_handed_over(copies: Copies) -> None:
    """A worker that takes over then checks it like every store that is opened."""
    copies.loaded(*THREE).close()
    copy = WarmCopy(DEFINITION, 0, copies.path, lambda topic: "a")
    copy.begin()
    assert not copy.check()
    assert copy.hand_over() is None
    RocksStore(copies.path, create=False).close()


@pytest.mark.parametrize("why", ["a hole", "a gap", "another topic", "stale_keys"])
def test_the_old_state_stays_until_the_new_is_whole(copies: Copies, why: str) -> None:
    """Where the changes do not lead on from it they are loaded beside it, and it can still be handed over."""
    copy = copies.loaded(*THREE)
    if why == "a hole":
        assert not copy.take(written(change(2), start=4), 5)
    elif why == "a gap":
        assert not copy.take(written(change(3), start=3), 4)
    elif why == "another topic":
        assert not copy.is_of("b")
        copies.changes_id = "b"
        copy = copies.begun()
    else:
        store = copy.hand_over()
        assert store is not None
        checkpoint = replace(Checkpoint.decode(store.checkpoint() or b""), stale_keys=frozenset({EVERYTHING}))
        store.commit({}, store.checksum(), checkpoint.encode())
        copy = copies.begun(store)
    assert (copy.is_warm, copy.reads_from) == (False, 0)
    store = copy.hand_over()
    assert store is not None
    assert len(list(store.scan())) == 2
    copy = copies.begun(store)
    if why in ("another topic", "stale_keys"):
        copy.take(written(progress(-1), change(5, after=Position(0, -1))), 2)
        while copy.reads_from is None:
            copy.check()
        store = copy.hand_over()
        assert store is not None
        assert [key for key, _ in store.scan()] == [b"1"]
        store.close()


def test_a_head_that_is_deleted_during_a_load(copies: Copies) -> None:
    """What was loaded lacks the deleted events: it is not taken, and loaded again."""
    copy = copies.loaded(*THREE)
    copy.reload("the changes topic does not reach so far")
    copies.changes_id = "a@1"
    assert not copy.take(written(*THREE), 3)
    assert (copy.is_warm, copy.reads_from) == (False, 0)
    assert not copy.take(written(*THREE[:2], progress(1, changes_id="a@1")), 3)
    while copy.reads_from is None:
        copy.check()
    store = copy.hand_over()
    assert store is not None
    assert [key for key, _ in store.scan()] == [b"1"]
    store.close()


def test_damage_is_found_and_a_strange_form_is_let_alone(copies: Copies) -> None:
    """A copy is checked like every store that is opened; what another version wrote is not touched."""
    store = copies.loaded(*THREE).hand_over()
    assert store is not None
    checksum, checkpoint = store.checksum(), store.checkpoint() or b""
    store.commit({b"9": b"x"}, checksum, checkpoint)
    with pytest.raises(StoreDamaged):
        copies.begun(store)
    copies.close()
    store = RocksStore(copies.path, create=False)
    store.commit({}, checksum, checkpoint.replace(b'"format":2', b'"format":9'))
    with pytest.raises(UnknownFormat):
        copies.begun(store)
    copies.close()
    assert RocksStore.exists(copies.path)


# the copies of a worker


class FakeKafka:
    """A Kafka that has a changes topic for each id, and a consumer of them, to which it sends nothing but errors."""

    def __init__(self) -> None:
        self.ids = {"orders.changes": "a", "items.changes": "a"}
        self.errors: list[KafkaError] = []
        self.assigned: list[str] = []
        self.questions = 0

    # the admin client

    def _answer(self, topic: str, answer: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if topic in self.ids:
            future.set_result(answer)
        else:
            future.set_exception(KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)))
        return future

    def list_offsets(self, asked: Any, **given: Any) -> dict[TopicPartition, Future[Any]]:
        """Return where partitions begin or end."""
        return {one: self._answer(one.topic, SimpleNamespace(offset=0)) for one in asked}

    def describe_topics(self, asked: Any) -> dict[str, Future[Any]]:
        """Return the topics' ids."""
        self.questions += 1
        names = asked.topic_names
        return {one: self._answer(one, SimpleNamespace(topic_id=self.ids.get(one))) for one in names}

    # the cluster

    def ask(self, partitions: Any, *, starts: Any) -> ClusterAnswer:
        """Ask, and have an answer at once."""
        admin: Any = self
        return ClusterAnswer(admin, partitions, starts)

    def topic_id(self, topic: str) -> str:
        """Return the id of a topic."""
        return self.ids[topic]

    def starts(self, topic: str, partitions: list[int]) -> dict[int, int]:
        """Return where partitions begin."""
        return dict.fromkeys(partitions, 0)

    # the consumer

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        """Read these too."""
        self.assigned += [one.topic for one in partitions]

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        """Read these no more."""
        self.assigned.append("")

    def consume(self, count: int, timeout: float) -> list[Any]:
        """Return the errors, each about no topic."""
        errors, self.errors = self.errors, []
        return [
            SimpleNamespace(topic=lambda: None, partition=lambda: None, error=lambda one=one: one)
            for one in errors
        ]

    def close(self) -> None:
        """Close the consumer."""


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    """A Kafka whose clients every `Standby` gets, and which is asked all the time."""
    kafka = FakeKafka()
    monkeypatch.setattr("sowline_materializer.standby.standby.plain_consumer", lambda *given: kafka)
    monkeypatch.setattr("sowline_materializer.standby.standby.Cluster", lambda *given: kafka)
    monkeypatch.setattr("sowline_materializer.standby.standby.LOOK_SECONDS", 0)
    return kafka


@pytest.fixture
def standby(kafka: FakeKafka, tmp_path: Path) -> Iterator[Standby]:
    """The copies of two topics, which are being loaded."""
    items = define_topic(name="items", key="/id")
    standby = Standby({}, {"items": items, "orders": DEFINITION}, lambda one: tmp_path / one[0] / str(one[1]))
    standby.cover([])
    while not standby.statistics().behind.keys() >= {("items", 0), ("orders", 0)}:
        standby.work(0)
    yield standby
    standby.close()


def test_an_error_about_no_topic_is_logged(kafka: FakeKafka, standby: Standby) -> None:
    """The copies go on."""
    kafka.errors = [KafkaError(KafkaError._ALL_BROKERS_DOWN)]
    with capture_logs() as logs:
        standby.work(0)
    assert [one["event"] for one in logs] == ["Kafka reported an error"]
    assert standby.statistics().behind.keys() == {("items", 0), ("orders", 0)}


def test_a_changes_topic_that_is_gone_hides_no_other(kafka: FakeKafka, standby: Standby) -> None:
    """One is deleted; the copy of another, which was replaced, is loaded again all the same."""
    assert kafka.assigned == ["items.changes", "orders.changes"]
    kafka.ids = {"orders.changes": "b"}
    for _ in range(4):
        standby.work(0)
    assert kafka.assigned[2:] == ["", "orders.changes"]


def test_a_copy_that_waits_for_kafka_does_not_keep_the_service_from_stopping(
    kafka: FakeKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the service is to stop, a question without an answer is not asked again."""
    monkeypatch.setattr("sowline_materializer.standby.standby.Cluster", Cluster)
    monkeypatch.setattr("sowline.kafka.admin.AdminClient", lambda config: kafka)
    kafka.ids = {}
    stop = threading.Event()
    stop.set()
    standby = Standby({}, {"orders": DEFINITION}, lambda one: tmp_path / one[0], stop=stop)
    standby.cover([])
    standby.work(0)
    assert kafka.questions == 1
    standby.close()


def test_a_copy_that_waits_for_a_leader_holds_up_no_owner(
    kafka: FakeKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question about a partition without a leader is repeated once, and later again with the copy's next start."""
    monkeypatch.setattr("sowline_materializer.standby.standby.Cluster", Cluster)
    monkeypatch.setattr("sowline.kafka.admin.AdminClient", lambda config: kafka)
    monkeypatch.setattr("sowline.kafka.retriable.ADMIN_SECONDS", 1.0)
    asked: list[Any] = []

    def leaderless(partitions: Any, **given: Any) -> dict[TopicPartition, Future[Any]]:
        asked.append(partitions)
        futures: dict[TopicPartition, Future[Any]] = {one: Future() for one in partitions}
        for future in futures.values():
            future.set_exception(KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE)))
        return futures

    monkeypatch.setattr(kafka, "list_offsets", leaderless)
    standby = Standby({}, {"orders": DEFINITION}, lambda one: tmp_path / one[0])
    standby.cover([])
    standby.work(0)
    assert len(asked) == 2
    assert standby.statistics().behind == {}
    standby.close()
