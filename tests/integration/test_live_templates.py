"""The template of documents changes while everybody reads, and the owner is killed between its portions."""

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import islice
from typing import Any

import pytest

from sowline import Client
from sowline.changes.change import Change
from sowline.kafka.messages import event_of
from sowline_materializer.core.portions import PORTION_CHANGES_MAX
from tests.integration.services import Service, System, system
from tests.integration.test_computed_views import operated
from tests.waiting import wait_for

DOCUMENTS = 5 * PORTION_CHANGES_MAX // 2
"""Two portions and a half."""

BEFORE = {"desk": "NY", "rank": "1"}
AFTER = {"rank": "2", "kind": "review"}

Body = dict[str, Any]


def content(id: int) -> Body:
    """Return what is written of a document: both templates hide a field of some."""
    return {"id": id, "desk": "AB"[id % 2], "n": id % 7, **({"kind": "own"} if id % 5 == 0 else {})}


def reading(template: Body) -> dict[int, Body]:
    """Return how all documents read."""
    return {id: content(id) | template for id in range(DOCUMENTS)}


def groups(documents: dict[int, Body]) -> dict[str, tuple[int, int]]:
    """Return the number of documents at each desk, and the sum of their n."""
    found: dict[str, tuple[int, int]] = {}
    for body in documents.values():
        count, total = found.get(body["desk"], (0, 0))
        found[body["desk"]] = count + 1, total + body["n"]
    return found


class Desk:
    """A topic of documents, a view of it, and the processes that serve them."""

    def __init__(self, made: System, name: str) -> None:
        self.made = made
        self.name = name
        self.view = f"{name}-desks"
        self.changes = made.topic(name).changes
        self.materializer = made.service("materializer").start().wait_ready()
        self.views = made.service("views").start().wait_ready()
        self.query: Service = made.service("query_service").start().wait_ready()

    def emitted(self) -> int:
        """Return where the changes end."""
        return self.made.cluster.ends(self.changes, range(1))[0]

    def change(self, template: Body) -> None:
        """Change the file, which the services follow."""
        self.made.redefine(topics=[topic_of(self.name, template)])

    def read(self, client: Client) -> dict[int, Body]:
        """Return how all documents read now."""
        return {one.data["id"]: one.data for one in client.sow(self.name) if one.command == "sow"}

    def desks(self, client: Client) -> dict[str, tuple[int, int]]:
        """Return the groups of the view."""
        found = (one.data for one in client.sow(self.view) if one.command == "sow")
        return {one["desk"]: (one["count"], one["n"]) for one in found}


def topic_of(name: str, template: Body) -> Body:
    """Return the definition with a template."""
    return {"name": name, "key": ["/id"], "partitions": 1, "documents": True, "template": template}


@pytest.fixture
def desk(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """A system with all documents."""
    name = f"t{uuid.uuid4().hex[:12]}-templates"
    projection = ["COUNT(1) AS /count", "SUM(/n) AS /n"]
    views = [{"name": f"{name}-desks", "from": name, "grouping": ["/desk"], "projection": projection}]
    directory = tmp_path_factory.mktemp("templates")
    with system(kafka, directory, [topic_of(name, BEFORE)], views=views) as made:
        made_desk = Desk(made, name)
        made.write(name, *map(content, range(DOCUMENTS)))
        made.wait_settled(made_desk.query.url, name)
        yield made_desk


def test_a_template_that_changes_while_everybody_reads(desk: Desk) -> None:
    """The end is what a recomputation makes of the contents, for each kind of reader, each change once."""
    before, after = reading(BEFORE), reading(AFTER)
    with ExitStack() as stack:
        client = stack.enter_context(Client(desk.query.url))
        watched = {
            "whole": client.local_view(desk.name, delta=False),
            "deltas": client.local_view(desk.name),
            "into focus": client.local_view(desk.name, filter="/desk = 'A'"),
            "out of focus": client.local_view(desk.name, filter="/desk = 'NY'"),
        }
        views = {what: stack.enter_context(view) for what, view in watched.items()}
        assert desk.read(client) == before
        wait_for(lambda: desk.desks(client) == groups(before), "the view before the change")
        stream = client.subscribe(desk.name, filter="/rank IN ('1', '2')", options="oof")
        bookmark = bookmark_of(client, desk.name)
        first = desk.emitted()
        desk.change(AFTER)
        wait_for(lambda: desk.emitted() >= first + PORTION_CHANGES_MAX, "the first portion")
        desk.materializer.kill()
        assert desk.emitted() < first + DOCUMENTS
        assert desk.read(client) == before
        desk.materializer.start().wait_ready()
        changed = list(islice(stream, DOCUMENTS))
        assert {one.data["id"]: one.data for one in changed} == after
        assert desk.read(client) == after
        expected: dict[str, Callable[[Body], bool]] = {
            "whole": lambda body: True,
            "deltas": lambda body: True,
            "into focus": lambda body: body["desk"] == "A",
            "out of focus": lambda body: False,
        }
        for what, is_shown in expected.items():
            shown = {id: body for id, body in after.items() if is_shown(body)}
            wait_for(lambda what=what, shown=shown: held(views[what]) == shown, f"the view of {what}")
        wait_for(lambda: desk.desks(client) == groups(after), "the view after the change")
        half = changed[DOCUMENTS // 2 - 1].bookmark
        for since, left in ((bookmark, changed), (half, changed[DOCUMENTS // 2 :])):
            again = list(islice(client.subscribe(desk.name, bookmark=since, options="oof"), len(left)))
            assert [(one.command, one.data, one.bookmark) for one in again] == [
                ("publish", one.data, one.bookmark) for one in left
            ]
        gone = client.subscribe(desk.name, bookmark=bookmark, filter="/desk = 'NY'", options="oof")
        assert [one.command for one in islice(gone, DOCUMENTS)] == ["oof"] * DOCUMENTS
    check_events(desk, first)


def bookmark_of(client: Client, topic: str) -> str:
    """Return where a topic stands."""
    (bookmark,) = (one.bookmark for one in client.sow(topic, filter="1=2") if one.command == "group_end")
    assert bookmark is not None
    return bookmark


def held(view: Any) -> dict[int, Body]:
    """Return the records of a local view by their ids."""
    return {body["id"]: body for body in view.values()}


def check_events(desk: Desk, first: int) -> None:
    """Look at what Kafka has of the `define`: each document once, in one log record, and then its end."""
    events = [event_of(message) for message in desk.made.read(desk.changes)[first:]]
    changes = [event for event in events if isinstance(event, Change)]
    (offset,) = {change.position.offset for change in changes}
    assert [change.position.nth for change in changes] == list(range(DOCUMENTS))
    assert {(change.op, change.last) for change in changes} == {("define", False)}
    ends = [event for event in events if not isinstance(event, Change) and event.position.offset == offset]
    assert {end.position.nth for end in ends} == {DOCUMENTS}
    assert {end.limits.template for end in ends} == {json.dumps(AFTER, separators=(",", ":"))}


def test_the_log_alone_leads_to_the_same(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With all other state lost, the `define` is where the template changes; and back again."""
    with Client(desk.query.url) as client:
        for template in (AFTER, BEFORE):
            desk.change(template)
            wait_for(lambda template=template: desk.read(client) == reading(template), "the new reading")
    code, text = operated(desk.made, monkeypatch, capfd, "verify", desk.name)
    assert (code, "equal" in text) == (0, True), text
