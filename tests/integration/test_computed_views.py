"""Views as topics: computed by real services, read like any other topic, and equal to a plain recomputation."""

import random
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from sowline.client.client import Client
from sowline.errors import SowlineError
from sowline.model.bookmark import parse_bookmark
from tests.integration.computed_desk import Desk, bookmark_of, definitions, in_order, operated, rows
from tests.integration.load import new_seed
from tests.integration.services import system
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def desk(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """All services, each view empty."""
    name = f"t{uuid.uuid4().hex[:12]}-orders"
    topics: list[dict[str, Any]] = [
        {"name": name, "key": "/id", "partitions": 2},
        {"name": f"{name}-customers", "key": "/id", "partitions": 2},
    ]
    directory = tmp_path_factory.mktemp("computed")
    slow = {"name": f"{name}-slow", "from": name, "interval": "300ms", "history": {"window": "1h"}}
    with system(kafka, directory, topics, views=definitions(name), conflated=[slow]) as made:
        desk = Desk(made, name, made.service("query_service").start())
        desk.materializers = [made.service("materializer").start()]
        desk.views = [made.service("views").start()]
        for service in (*desk.materializers, *desk.views, desk.query):
            service.wait_ready()
        yield desk


def test_views_equal_a_recomputation(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Groups, views on views and single records; also after services were killed. `verify` computes them again."""
    dice = random.Random(new_seed())
    with Client(desk.query.url) as client:
        for turn in range(4):
            desk.write(dice, 150)
            if turn == 1:
                desk.views[0].kill()
                desk.write(dice, 50)
                desk.views[0].start()
            if turn == 2:
                desk.materializers[0].kill()
                desk.write(dice, 50)
                desk.materializers[0].start()
            expected = in_order(desk.expected())
            wait_for(lambda expected=expected: rows(client, desk.exposure) == expected, "the groups")
            large = [one for one in expected if one["largest"] > 50]
            wait_for(lambda large=large: rows(client, desk.large) == in_order(large), "the view of a view")
            working = [
                {"id": one["id"], "double": one["qty"] * 2}
                for one in desk.held.values()
                if one["status"] == "working"
            ]
            wait_for(lambda working=working: rows(client, desk.working) == in_order(working), "the records")
    desk.write(dice, 50)  # the views are behind by now
    for view in (desk.exposure, desk.large, desk.slow):
        code, text = operated(desk.made, monkeypatch, capfd, "verify", view)
        assert code == 0, text
        assert text.count("source and changes at") == desk.made.topic(view).partitions, text


def test_joins_equal_a_recomputation(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Changes of both sides, none or several matches, and services that were killed."""
    dice = random.Random(new_seed())
    with Client(desk.query.url) as client:
        for turn in range(3):
            desk.write(dice, 60)
            desk.write_customers(dice, 6)
            if turn == 1:
                desk.views[0].kill()
                desk.write(dice, 30)
                desk.write_customers(dice, 6)
                desk.views[0].start()
            desk.write(dice, 30)
            tiers, known = in_order(desk.expected_tiers()), in_order(desk.expected_known())
            wait_for(lambda tiers=tiers: rows(client, desk.tiers) == tiers, "the groups")
            wait_for(lambda known=known: rows(client, desk.known) == known, "the records")
            pairs = in_order(desk.expected_pairs())
            wait_for(lambda pairs=pairs: rows(client, desk.pairs) == pairs, "the pairs")
    for view in (desk.tiers, desk.known, desk.pairs):
        code, text = operated(desk.made, monkeypatch, capfd, "verify", view)
        assert code == 0, text
        assert text.count("source and changes at") == desk.made.topic(view).partitions, text


def test_a_conflated_topic_changes_a_record_once_in_an_interval(desk: Desk) -> None:
    """It has the records of its source and their SOW keys. A deletion comes at the end of an interval, too."""
    publisher = desk.made.publisher()
    for quantity in range(200):
        publisher.publish(desk.orders, {"id": 1000, "qty": quantity})
    publisher.flush()
    topic = desk.made.topic(desk.slow)
    with Client(desk.query.url) as client:
        last = [{"id": 1000, "qty": 199}]
        wait_for(lambda: rows(client, desk.slow, filter="/id = 1000") == last, "the last update")
        wait_for(lambda: rows(client, desk.slow) == rows(client, desk.orders), "the records of the source")
        keys = {message.sow_key for message in client.sow(desk.slow) if message.command == "sow"}
        assert keys == {message.sow_key for message in client.sow(desk.orders) if message.command == "sow"}
        bodies = [message.value() or b"" for message in desk.made.read(topic.changes)]
        assert 1 <= sum(b'"id":1000' in body for body in bodies) < 20
        publisher.sow_delete(desk.orders, data={"id": 1000})
        publisher.flush()
        wait_for(lambda: rows(client, desk.slow, filter="/id = 1000") == [], "the record to be deleted")


def test_a_read_waits_for_what_a_view_reflects(desk: Desk) -> None:
    """A bookmark of the source is demanded of a view, and of a view of that view."""
    with Client(desk.query.url) as client:
        for id in (2000, 2001):
            desk.held[id] = {"id": id, "customer": "late", "region": "eu", "status": "open", "qty": 99}
            client.publish(desk.orders, desk.held[id])
        client.flush()
        late = "/customer = 'late'"
        bookmark = wait_for(lambda: bookmark_of(client, desk.orders, 2, filter=late), "the orders")
        assert [row["orders"] for row in rows(client, desk.exposure, filter=late, at_least=bookmark)] == [2]
        wanted = parse_bookmark(bookmark)[desk.orders]

        def reflects() -> bool:
            found = parse_bookmark(desk.described(desk.exposure)["reflects"])[desk.orders]
            return all(found[number] >= position for number, position in wanted.items())

        wait_for(reflects, "the description to be as new")  # at a gateway it is a moment old
        assert desk.described(desk.orders)["reflects"] is None
        for path in client.explain(desk.exposure, filter=late)["access_paths"]:
            assert (path["view"]["from"], path["view"]["having"]) == (desk.orders, "/orders > 1")
            assert parse_bookmark(path["reflects"]).keys() == {desk.orders}
            assert path["behind"] == 0
        assert [row["orders"] for row in rows(client, desk.large, filter=late, at_least=bookmark)] == [2]
        # A topic does not depend on what is computed from it.
        unreached = f"{desk.exposure}.partials:0@1000000"
        assert len(rows(client, desk.orders, filter=late, at_least=unreached)) == 2


def test_a_read_waits_for_what_a_join_reflects(desk: Desk) -> None:
    """A bookmark of the source or of the joined topic is demanded of the view, and of a view of the view."""
    with Client(desk.query.url) as client:
        mine = "/id = 4000"
        order = {"id": 4000, "customer": "4000", "region": "eu", "status": "open", "qty": 1}
        for tier in ("gold", "tin"):
            # Each time the other topic is the one that is written last.
            customer = {"id": "4000", "tier": tier}
            written: list[tuple[str, dict[str, Any]]] = [(desk.orders, order), (desk.customers, customer)]
            for topic, record in written if tier == "tin" else reversed(written):
                bookmark = client.publish(topic, record, wait=True) or ""
            expected = [{"id": 4000, "tier": tier}]
            assert rows(client, desk.known, filter=mine, at_least=bookmark) == expected
            assert rows(client, desk.gold, filter=mine, at_least=bookmark) == expected * (tier == "gold")
        desk.held[4000] = order
        desk.held_customers |= {"4000": customer, "nobody's": {"id": "nobody's", "tier": "none"}}
        bookmark = client.publish(desk.customers, desk.held_customers["nobody's"], wait=True) or ""
        assert rows(client, desk.known, filter="/tier = 'none'", at_least=bookmark) == []
        wanted = parse_bookmark(bookmark)[desk.customers]

        def reflects() -> bool:
            found = parse_bookmark(desk.described(desk.known)["reflects"])
            assert len(found[desk.orders]) == 2
            return all(found[desk.customers][number] >= position for number, position in wanted.items())

        wait_for(reflects, "the description to be as new")  # at a gateway it is a moment old


def test_subscribers_see_groups_come_and_go(desk: Desk) -> None:
    """As deltas, out-of-focus messages, and on a page. While `having` hides a group, its changes are not sent."""

    def order(id: int) -> dict[str, Any]:
        return {"id": id, "customer": "zed", "region": "eu", "status": "open", "qty": id}

    zed, group = "/customer = 'zed'", {"customer": "zed", "region": "eu"}
    publisher = desk.made.publisher()
    with Client(desk.query.url) as client, Client(desk.query.url) as paging:
        messages = client.sow_and_delta_subscribe(desk.exposure, filter=zed, options="oof")
        page = paging.sow_and_subscribe(desk.exposure, filter=zed, order_by="/orders", top_n=1, options="oof")
        assert [next(messages).command, next(messages).command] == ["group_begin", "group_end"]
        assert [next(page).command, next(page).command] == ["group_begin", "group_end"]
        publisher.publish(desk.orders, order(3001))
        publisher.publish(desk.orders, order(3002))
        publisher.flush()
        entered = next(messages)
        assert (entered.command, entered.data["orders"]) == ("publish", 2)
        assert next(page).data["orders"] == 2
        publisher.publish(desk.orders, order(3003))
        publisher.flush()
        grown = next(messages)
        assert grown.delta
        assert grown.data == group | {"orders": 3, "largest": 3003}
        assert next(page).data["orders"] == 3
        publisher.sow_delete(desk.orders, data={"id": 3001})
        publisher.flush()
        assert next(messages).data == group | {"orders": 2, "smallest": 3002}
        publisher.sow_delete(desk.orders, data={"id": 3002})
        publisher.flush()
        left = next(messages)
        assert (left.command, left.reason, left.data["orders"]) == ("oof", "deleted", 2)
        assert [next(page).data["orders"], next(page).command] == [2, "oof"]
        publisher.publish(desk.orders, order(3003) | {"qty": 1})
        publisher.flush()
        changed = "/id = 3003 AND /qty = 1"
        bookmark = wait_for(
            lambda: bookmark_of(client, desk.orders, 1, filter=changed), "the order to change"
        )
        assert rows(client, desk.exposure, filter=zed, at_least=bookmark) == [], "the group is still hidden"
        publisher.publish(desk.orders, order(3004))
        publisher.flush()
        back = next(messages)
        assert (back.command, back.data["orders"], back.data["smallest"]) == ("publish", 2, 1)
        assert next(page).data["orders"] == 2
    desk.held |= {3003: order(3003) | {"qty": 1}, 3004: order(3004)}


def test_a_view_as_it_was(desk: Desk) -> None:
    """At a past time: by the log time of the view, a little after that of its source. A conflated topic, too."""

    def order(id: int) -> dict[str, Any]:
        return {"id": id, "customer": "past", "region": "eu", "status": "open", "qty": id}

    past = "/customer = 'past'"
    publisher = desk.made.publisher()
    with Client(desk.query.url) as client:
        for id in (4001, 4002):
            publisher.publish(desk.orders, order(id))
        publisher.flush()
        wait_for(
            lambda: [one["orders"] for one in rows(client, desk.exposure, filter=past)] == [2], "the group"
        )
        wait_for(lambda: len(rows(client, desk.slow, filter=past)) == 2, "the records")
        shown = [
            str(message.timestamp)
            for topic in (desk.exposure, desk.slow)
            for message in client.sow(topic, filter=past, options="timestamp")
            if message.command == "sow"
        ]
        then = re.sub("[-:]", "", max(shown))
        for id in (4001, 4002):
            publisher.sow_delete(desk.orders, data={"id": id})
        publisher.flush()
        for topic, count in ((desk.exposure, 1), (desk.slow, 2)):
            wait_for(lambda topic=topic: rows(client, topic, filter=past) == [], "the records to be deleted")
            assert len(rows(client, topic, filter=past, bookmark=then)) == count


def test_a_view_takes_no_commands(desk: Desk) -> None:
    """The refusal names the topic to write to. A command in its log becomes a dead letter."""
    with Client(desk.query.url) as client:
        with pytest.raises(SowlineError, match=f"write to {desk.orders}"):
            client.publish(desk.exposure, {"customer": "acme"})
        with pytest.raises(SowlineError, match=f"write to {desk.orders}"):
            client.sow_delete(desk.exposure, filter="1=1")
    with pytest.raises(SowlineError, match=f"write to {desk.orders}"):
        desk.made.publisher().publish(desk.exposure, {"customer": "acme"})


def test_joins_continue_after_their_consumer_group_is_gone(kafka: str, tmp_path: Path) -> None:
    """Kafka forgets a group without members after a week, and with it the generations of the owners."""
    name = f"t{uuid.uuid4().hex[:12]}-sales"
    view = {
        "name": f"{name}-named",
        "from": name,
        "join": [{"topic": f"{name}-cities", "on": "/city = /id", "as": "at"}],
        "projection": ["/id", "/at/name AS /name"],
    }
    topics = [{"name": name, "key": "/id"}, {"name": f"{name}-cities", "key": "/id"}]
    with system(kafka, tmp_path, topics, views=[view]) as made:
        services = [made.service(one).start() for one in ("materializer", "views", "query_service")]
        for service in services:
            service.wait_ready()
        made.write(name, {"id": 1, "city": "c"})
        with Client(services[2].url) as client:
            wait_for(lambda: rows(client, str(view["name"])) == [{"id": 1, "name": None}], "the first record")
            services[1].stop()
            group = f"{made.group}-view-{view['name']}"
            admin = AdminClient({"bootstrap.servers": kafka})
            admin.delete_consumer_groups([group])[group].result()
            services[1].start().wait_ready()
            made.write(f"{name}-cities", {"id": "c", "name": "Chur"})
            wait_for(lambda: rows(client, str(view["name"])) == [{"id": 1, "name": "Chur"}], "the match")


def test_a_view_is_rebuilt_from_its_source(
    kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """By another definition. Groups that `having` hid do not come back. A dump is the same from each source."""
    name = f"t{uuid.uuid4().hex[:12]}-sales"
    view: dict[str, Any] = {
        "name": f"{name}-sums",
        "from": name,
        "grouping": ["/city"],
        "projection": ["SUM(/qty) AS /sold"],
        "having": "/sold > 10",
    }
    topics = [{"name": name, "key": "/id", "partitions": 2}]
    with system(kafka, tmp_path, topics, views=[view]) as made:
        materializer, views = made.service("materializer").start(), made.service("views").start()
        materializer.wait_ready()
        made.write(name, *({"id": id, "city": f"c{id % 4}", "qty": id} for id in range(20)))
        query = made.service("query_service").start().wait_ready()
        with Client(query.url) as client:
            wait_for(lambda: len(rows(client, view["name"])) == 4, "the groups")
        for service in (materializer, views, query):
            service.stop()
        made.redefine(views=[view | {"filter": "/qty < 6", "having": "/sold > 4"}])
        code, text = operated(made, monkeypatch, capfd, "rebuild", view["name"])
        assert code == 0, text
        for service in (materializer, views, query):
            service.start().wait_ready()
        with Client(query.url) as client:
            expected = [{"city": "c1", "sold": 6}]
            wait_for(lambda: rows(client, view["name"]) == expected, "the groups of the new definition")
        materializer.stop()
        dumps = [
            operated(made, monkeypatch, capfd, "dump", view["name"], "--from", source)[1]
            for source in ("store", "changes", "log")
        ]
        assert dumps[0] == dumps[1] == dumps[2]
        assert '"reflected"' in dumps[0]
        assert '"states"' in dumps[0]
