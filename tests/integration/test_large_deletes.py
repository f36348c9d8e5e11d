"""A delete of many documents, whose owner is killed between its portions."""

import uuid
from collections.abc import Iterator
from itertools import islice

import pytest

from sowline import Client
from sowline.changes.change import Change
from sowline.kafka.messages import event_of
from sowline_materializer.core.portions import PORTION_CHANGES_MAX
from tests.integration.services import System, system
from tests.waiting import wait_for

DOCUMENTS = 5 * PORTION_CHANGES_MAX
KEPT = 100
DELETED = DOCUMENTS - KEPT


@pytest.fixture
def made(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A system of the test's own, with a topic of documents."""
    name = f"t{uuid.uuid4().hex[:12]}-large"
    topics = [{"name": name, "key": ["/id"], "partitions": 1, "documents": True}]
    with system(kafka, tmp_path_factory.mktemp("large"), topics) as given:
        yield given


def test_a_delete_continues_after_its_owner_was_killed(made: System) -> None:
    """Each document is deleted once, readers see none of it before its end, and the count is that of all."""
    topic = made.topics.topics[0]
    materializer = made.service("materializer").start().wait_ready()
    query = made.service("query_service").start().wait_ready()
    made.write(topic.name, *({"id": id} for id in range(DOCUMENTS)))
    made.wait_settled(query.url, topic.name)

    def emitted() -> int:
        return made.cluster.ends(topic.changes, range(1))[0]

    def held(client: Client) -> int:
        return sum(message.command == "sow" for message in client.sow(topic.name))

    before = emitted()
    with Client(query.url) as client:
        stream = client.subscribe(topic.name, filter=f"/id >= {KEPT}", options="oof")
        filter = b"/id >= %d" % KEPT
        offset = made.produce(
            topic.log, None, headers=[("sow.command", b"sow_delete"), ("sow.filter", filter)]
        )
        wait_for(lambda: emitted() >= before + PORTION_CHANGES_MAX, "the first portion")
        materializer.kill()
        assert emitted() < before + DELETED
        assert held(client) == DOCUMENTS
        materializer.start().wait_ready()
        gone = [message.data["id"] for message in islice(stream, DELETED)]
        assert sorted(gone) == list(range(KEPT, DOCUMENTS))
        assert held(client) == KEPT
    events = [event_of(message) for message in made.read(topic.changes)]
    changes = [one for one in events if isinstance(one, Change) and one.position.offset == offset]
    assert [change.position.nth for change in changes] == list(range(DELETED))
    assert [change.outcome for change in changes if change.last] == [f"deleted {DELETED}"]
