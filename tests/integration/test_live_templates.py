"""A template changes under live readers, and its owner is killed between two portions of the changes."""

import shutil
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from itertools import takewhile
from typing import Any

import pytest

from sowline import Client
from sowline.changes.change import Change
from sowline.changes.progress import Progress
from sowline.client.messages import Messages
from sowline.commands.command import DEFINE
from sowline.kafka.messages import event_of
from sowline.wire.client_message import Message
from sowline_materializer.core.portions import PORTION_CHANGES_MAX
from tests.integration.computed_desk import operated
from tests.integration.services import Service, System, system
from tests.waiting import wait_for

Body = dict[str, Any]

DOCUMENTS = 5 * PORTION_CHANGES_MAX // 2
"""Two portions and a half."""
DELETED = range(0, DOCUMENTS, 50)
MARK: Body = {"id": DOCUMENTS, "desk": "A", "n": 1}
"""The document that is written last. All filters match it: a subscriber that has it has all that came before it."""

BEFORE: Body = {"desk": "NY"}
AFTER: Body = {"kind": "review"}
FILTER = "/desk = 'A' OR /kind = 'own'"


def matches(body: Body) -> bool:
    """Tell whether the filter matches: some documents stay, some go out of focus, some come into it."""
    return body["desk"] == "A" or body.get("kind") == "own"


def content(id: int) -> Body:
    """Return what is written of a document: each template hides fields of it, and some read the same with both."""
    body = {"id": id, "desk": "AB"[id % 2], "n": id % 7}
    return body | (BEFORE | AFTER if id % 50 == 1 else {"kind": "own"} if id % 5 == 0 else {})


def reading(template: Body) -> dict[int, Body]:
    """Return how all documents read."""
    return {id: content(id) | template for id in range(DOCUMENTS) if id not in DELETED}


def groups(documents: dict[int, Body]) -> dict[str, tuple[int, int]]:
    """Return the number of documents at each desk, and the sum of their n."""
    counts, sums = Counter[str](), Counter[str]()
    for body in documents.values():
        counts[body["desk"]] += 1
        sums[body["desk"]] += body["n"]
    return {desk: (counts[desk], sums[desk]) for desk in counts}


class Subscriber:
    """A subscriber: what it holds, and what it was sent after its snapshot."""

    def __init__(self, stream: Messages) -> None:
        self.held: dict[int, Body] = {}
        self.sent: list[Message] = []
        self.stream = stream

    def read_snapshot(self) -> str:
        """Read the snapshot, and return its bookmark."""
        for message in self.stream:
            if message.command == "group_end":
                assert message.bookmark is not None
                return message.bookmark
            if message.command == "sow":
                self.held[message.data["id"]] = message.data
        raise AssertionError("expected the end of the snapshot")

    def read_to_mark(self) -> None:
        """Apply all messages before that of the last document."""
        for message in self.stream:
            data = message.data
            if data["id"] == MARK["id"]:
                return
            self.sent.append(message)
            if message.command == "oof":
                del self.held[data["id"]]
                continue
            held = self.held.get(data["id"], {}) if message.delta else {}
            removed = {path.removeprefix("/") for path in message.removed}
            self.held[data["id"]] = {name: held[name] for name in held if name not in removed} | data

    @property
    def commands(self) -> dict[int, str]:
        """The commands by document; each document has one."""
        found = {message.data["id"]: message.command for message in self.sent}
        assert len(found) == len(self.sent), "a document's change comes once"
        return found


class Desk:
    """A topic of documents, a view of it, and the processes that serve them."""

    def __init__(self, made: System, name: str) -> None:
        self.made = made
        self.name = name
        self.view = f"{name}-desks"
        names = ("materializer", "views", "query_service")
        services = [made.service(name).start() for name in names]
        for service in services:
            service.wait_ready()
        self.materializer: Service = services[0]
        self.query: Service = services[2]

    @property
    def emitted(self) -> int:
        """Where the changes end."""
        return self.made.cluster.ends(self.made.topic(self.name).changes, range(1))[0]

    def change(self, template: Body) -> None:
        """Change the template in the file, which the services follow."""
        self.made.redefine(topics=[topic_of(self.name, template)])

    def read(self, client: Client) -> dict[int, Body]:
        """Return how all documents read now."""
        return {one["id"]: one for one in client.records(self.name)}

    def reads(self, client: Client, documents: dict[int, Body]) -> bool:
        """Tell whether all documents read so now."""
        return self.read(client) == documents

    def desks(self, client: Client, bookmark: str) -> dict[str, tuple[int, int]]:
        """Return the groups of the view, with all changes up to a bookmark."""
        found = client.records(self.view, at_least=bookmark)
        return {one["desk"]: (one["count"], one["n"]) for one in found}


def topic_of(name: str, template: Body) -> Body:
    """Return the definition with a template."""
    return {"name": name, "key": ["/id"], "documents": True, "template": template}


@pytest.fixture
def desk(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A system with all documents."""
    name = f"t{uuid.uuid4().hex[:12]}-templates"
    projection = ["COUNT(1) AS /count", "SUM(/n) AS /n"]
    views = [{"name": f"{name}-desks", "from": name, "grouping": ["/desk"], "projection": projection}]
    directory = tmp_path_factory.mktemp("templates")
    with system(kafka, directory, [topic_of(name, BEFORE)], views=views) as made:
        made_desk = Desk(made, name)
        publisher = made.publisher()
        for id in range(DOCUMENTS):
            publisher.publish(name, content(id))
        for id in DELETED:
            publisher.sow_delete(name, data={"id": id})
        publisher.flush()
        made.wait_settled(made_desk.query.url, name)
        yield made_desk


@pytest.mark.parametrize("is_disk_lost", [False, True])
def test_a_template_changes_under_live_readers(desk: Desk, *, is_disk_lost: bool) -> None:
    """Each reader ends with what the contents and the new template give, and gets the change of a document once.

    The next owner has a disk from before the change, or continues it from the changes that Kafka has.
    """
    before, after = reading(BEFORE), reading(AFTER)
    with ExitStack() as stack:
        # A client reads no further while one of its streams has too many unread messages: each stream has a client.
        client, *clients = (stack.enter_context(Client(desk.query.url)) for _ in range(4))
        whole = Subscriber(clients[0].sow_and_subscribe(desk.name))
        delta = Subscriber(clients[1].sow_and_delta_subscribe(desk.name))
        focus = Subscriber(clients[2].sow_and_subscribe(desk.name, filter=FILTER, options="oof"))
        bookmark = whole.read_snapshot()
        assert {delta.read_snapshot(), focus.read_snapshot()} == {bookmark}
        assert whole.held == delta.held == before
        assert focus.held == matching(before)
        assert desk.desks(client, bookmark) == groups(before)
        first = desk.emitted
        desk.change(AFTER)
        wait_for(lambda: desk.emitted >= first + PORTION_CHANGES_MAX, "the first portion")
        desk.materializer.kill()
        assert desk.emitted < first + len(before), "killed before the last portion"
        assert desk.read(client) == before
        if is_disk_lost:
            shutil.rmtree(desk.made.directory / "sow")
        desk.materializer.start().wait_ready()
        desk.made.write(desk.name, MARK)
        for one in (whole, delta, focus):
            one.read_to_mark()
        assert whole.held == delta.held == after
        changed = {id: "publish" for id in after if after[id] != before[id]}
        assert whole.commands == delta.commands == changed
        assert focus.held == matching(after)
        gone = dict.fromkeys(matching(before).keys() - matching(after).keys(), "oof")
        assert focus.commands == {id: changed[id] for id in matching(after) if id in changed} | gone
        assert all(message.delta for message in delta.sent)
        after[MARK["id"]] = MARK | AFTER
        assert desk.read(client) == after
        assert whole.stream.bookmark is not None
        assert desk.desks(client, whole.stream.bookmark) == groups(after)
        assert resumed(client, desk, bookmark) == whole.sent
        half = len(whole.sent) // 2
        within = whole.sent[half - 1].bookmark
        assert within is not None
        assert resumed(client, desk, within) == whole.sent[half:]
        assert resumed(client, desk, bookmark, filter=FILTER, options="oof") == focus.sent
    check_events(desk, first, len(before))


def resumed(client: Client, desk: Desk, bookmark: str, **reading: Any) -> list[Message]:
    """Return what a client that resumes from a bookmark is sent before the last document."""
    with closing(client.subscribe(desk.name, bookmark=bookmark, **reading)) as stream:
        return list(takewhile(lambda message: message.data["id"] != MARK["id"], stream))


def matching(documents: dict[int, Body]) -> dict[int, Body]:
    """Return the documents that match the filter."""
    return {id: body for id, body in documents.items() if matches(body)}


def check_events(desk: Desk, first: int, count: int) -> None:
    """Look at what Kafka has of the `define`: each document once, then the event that ends it with the template."""
    events = [event_of(message) for message in desk.made.read(desk.made.topic(desk.name).changes)[first:]]
    (*changes, end) = events[: count + 1]
    assert {event.position.offset for event in changes} == {end.position.offset}
    assert [event.position.nth for event in changes] == list(range(count))
    assert all(isinstance(one, Change) and one.op == DEFINE and not one.last for one in changes)
    assert isinstance(end, Progress)
    assert (end.position.nth, end.limits.template) == (count, '{"kind":"review"}')


@pytest.mark.long
def test_the_log_alone_leads_to_the_same(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A replay of the log changes the template where its owner did, there and back."""
    with Client(desk.query.url) as client:
        for template in (AFTER, BEFORE):
            desk.change(template)
            wait_for(partial(desk.reads, client, reading(template)), "the new reading")
    code, text = operated(desk.made, monkeypatch, capfd, "verify", desk.name)
    assert (code, "equal" in text) == (0, True), text
