"""Another template of documents: it is applied, emitted and committed in portions, with the result of one step."""

from collections.abc import Mapping
from dataclasses import replace

import orjson
import pytest

from sowline.changes.change import Change
from sowline.changes.event import Event, read_event
from sowline.changes.progress import Progress
from sowline.commands.command import Headers, LogRecord
from sowline.config.topic_definition import TopicDefinition, define_topic
from sowline.model.limits import define_value
from sowline.model.position import Position
from sowline_materializer.core import portions
from sowline_materializer.core.checkpoint import Checkpoint
from sowline_materializer.partition.changes_follower import ChangesFollower
from sowline_materializer.partition.changes_loader import ChangesLoader
from sowline_materializer.partition.opened import OpenedPartition
from sowline_materializer.partition.partition import Partition, progress_of
from sowline_query_service.replica.incomplete_record import IncompleteRecord
from sowline_query_service.replica.plain_run import EventAtOffset
from tests.memory_store import MemoryStore
from tests.property.world import dump

DOCUMENTS = 7
DEFINE = DOCUMENTS
"""The offset of the `define`. It has records before and after it in its batch."""

DELTA: Headers = [("sow.command", b"delta")]

BEFORE, AFTER = {"type": "review"}, {"n": 1, "rank": 2}
"""Documents have an n of their own: for one of them it is 1, and it reads the same but for the type."""


def defined(template: Mapping[str, object]) -> TopicDefinition:
    """Return the topic with a template."""
    return define_topic(name="reviews", key="/id", documents=True, template=template)


class Owner:
    """An owner of the partition, which works until a batch is applied; it may be killed after any step."""

    def __init__(self, definition: TopicDefinition | None = None) -> None:
        self.definition = definition or defined(AFTER)
        self.store = MemoryStore()
        before = defined(BEFORE)
        self.begin = Checkpoint(definition=before.digest, limits=before.limits, log_id="log")
        self.store.commit({}, self.store.checksum(), self.begin.encode())
        self.events: list[Event] = []
        self.completed: list[int] = []
        define = define_value(before.limits, defined(AFTER).limits)
        self.log = [
            *(LogRecord(n, 1000, b"%d" % n, b'{"n":%d}' % n, DELTA) for n in range(DOCUMENTS)),
            LogRecord(DEFINE, 2000, None, define, [("sow.command", b"define")]),
            LogRecord(DEFINE + 1, 3000, b"0", b'{..,"m":5}', DELTA),
        ]

    def open(self) -> Partition:
        """Open the partition from the store, as after a crash."""
        checkpoint = Checkpoint.decode(self.store.checkpoint() or b"")
        opened = OpenedPartition(self.store, checkpoint, checkpoint.position)
        return Partition(self.definition, 0, opened)

    def work(self, *, is_killed: bool = False) -> None:
        """Apply the log in one batch; an owner that is killed opens the partition again after each step."""
        partition = self.open()
        while partition.are_left(self.log):
            prepared = partition.prepare(self.log, len(self.log))
            self.events += [as_read(event) for event in prepared.events]
            self.completed.append(prepared.records)
            partition.commit(prepared, 0)
            if is_killed:
                partition = self.open()

    @property
    def changes(self) -> list[Change]:
        """The changes among the events."""
        return [event for event in self.events if isinstance(event, Change)]

    @property
    def kinds(self) -> str:
        """The events in order: a change that does not end its log record, another change, or a progress event."""
        return "".join(
            "p" if isinstance(event, Progress) else "c" if event.last else "-" for event in self.events
        )


def as_read(event: Event) -> Event:
    """Return an event as a reader of Kafka gets it."""
    if isinstance(event, Progress):
        return read_event(event.key, event.value(), None)
    return read_event(event.sow_key, event.value, event.headers())


@pytest.fixture
def whole() -> Owner:
    """An owner that applied everything in one step."""
    owner = Owner()
    owner.work()
    assert owner.completed == [len(owner.log)]
    return owner


def test_every_document_reads_as_if_it_were_written_again(whole: Owner) -> None:
    """The end equals a topic that has had the new template from the beginning, with the fields that it hides."""
    checkpoint = whole.open().checkpoint
    assert (checkpoint.definition, checkpoint.limits) == (whole.definition.digest, whole.definition.limits)
    fresh = Owner()
    begin = replace(fresh.begin, definition=fresh.definition.digest, limits=fresh.definition.limits)
    fresh.store.commit({}, fresh.store.checksum(), begin.encode())
    fresh.work()
    found, expected = (
        {
            key: (orjson.loads(record.body or b""), record.writes and record.writes.hidden)
            for key, record in dump(owner.store, 0, 0).items()
        }
        for owner in (whole, fresh)
    )
    assert found == expected


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("portion", [1, 2, 3, 5])
def test_a_template_in_portions(
    whole: Owner, monkeypatch: pytest.MonkeyPatch, portion: int, is_killed: bool
) -> None:
    """Changes and state are those of one step, each change is emitted once, and a progress event ends them."""
    monkeypatch.setattr(portions, "PORTION_CHANGES_MAX", portion)
    owner = Owner()
    owner.work(is_killed=is_killed)
    assert owner.changes == whole.changes
    assert dump(owner.store, 0, 0) == dump(whole.store, 0, 0)
    assert replace(owner.open().checkpoint, changes_end=0) == whole.open().checkpoint
    assert (sum(owner.completed), len(owner.completed)) == (len(owner.log), 1 + -(-DOCUMENTS // portion))
    assert owner.kinds == "c" * DOCUMENTS + "-" * DOCUMENTS + "pcp"
    ends = [event for event in owner.events if isinstance(event, Progress)]
    assert [(one.position, one.after) for one in ends] == [
        (Position(0, DEFINE, DOCUMENTS), Position(0, DEFINE, DOCUMENTS - 1)),
        (Position(0, DEFINE + 1), Position(0, DEFINE + 1)),
    ]


@pytest.mark.parametrize("found", range(1, DOCUMENTS + 2))
def test_an_owner_continues_a_template(whole: Owner, monkeypatch: pytest.MonkeyPatch, found: int) -> None:
    """Kafka has the first events of the `define`: the next owner loads them, and emits the rest in portions.

    Until the last of them, the progress event, the state has the previous template.
    """
    monkeypatch.setattr(portions, "PORTION_CHANGES_MAX", 2)
    owner = Owner()
    loader = ChangesLoader(owner.store, owner.definition)
    sent = whole.events[: DOCUMENTS + found]
    loader.load([progress_of(owner.begin, 0, {}), *sent])
    loader.finish()
    checkpoint = replace(loader.checkpoint(0), stale_keys=frozenset())
    is_all = isinstance(sent[-1], Progress)
    assert (checkpoint.complete, checkpoint.limits == owner.definition.limits) == (is_all, is_all)
    assert checkpoint.under(owner.definition) is checkpoint
    owner.store.commit({}, owner.store.checksum(), checkpoint.encode())
    owner.work()
    assert owner.changes == [
        event for event in whole.events[DOCUMENTS + found :] if isinstance(event, Change)
    ]
    assert dump(owner.store, 0, 0) == dump(whole.store, 0, 0)


def test_a_copy_that_follows_is_within_the_template_until_it_ends(whole: Owner) -> None:
    """An owner that opens the copy in between continues the `define`."""
    store = MemoryStore()
    follower = ChangesFollower(whole.definition, store, whole.begin, [])
    for at, event in enumerate(whole.events):
        follower.follow([event], at)
        is_within = DOCUMENTS <= at < 2 * DOCUMENTS
        assert follower.checkpoint.complete != is_within
        assert (follower.checkpoint.limits == whole.definition.limits) == (at >= 2 * DOCUMENTS)
    assert dump(store, 0, 0) == dump(whole.store, 0, 0)


def test_readers_see_nothing_of_it_before_its_end(whole: Owner) -> None:
    """The replica takes the changes together with the progress event behind them."""
    read = [EventAtOffset(*one) for one in enumerate(whole.events)]
    for end in range(DOCUMENTS, len(read)):
        incomplete = IncompleteRecord()
        seen = incomplete.complete(read[:end])
        assert seen == read[: DOCUMENTS if end <= 2 * DOCUMENTS else end]
        assert seen + incomplete.complete(read[end:]) == read


def test_a_template_that_was_read_by_another_order_of_fields_is_the_same() -> None:
    """JSON objects have no order: no document changes."""
    owner = Owner()
    was, now = (replace(owner.begin.limits, template=text) for text in ('{"a":1,"b":2}', '{"b":2,"a":1}'))
    begin = replace(owner.begin, limits=was)
    owner.store.commit({}, owner.store.checksum(), begin.encode())
    define = LogRecord(DEFINE, 2000, None, define_value(was, now), [("sow.command", b"define")])
    owner.log = [*owner.log[:DOCUMENTS], define]
    owner.work()
    assert owner.kinds == "c" * DOCUMENTS + "p"
    assert owner.open().checkpoint.limits == now
