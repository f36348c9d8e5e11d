"""What happens in each case for clients that is recorded, and in which topic."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from unittest.mock import patch

from websockets.asyncio.client import connect as really_connect

from sowline.client.async_client import AsyncClient
from sowline.errors import SowlineError
from tests.conformance.client_cases import Json
from tests.conformance.recording import Recording, Scenario
from tests.integration.compaction import compact, hasten_compaction


async def records(case: Recording) -> None:
    """Records are inserted, updated, sent once more, deleted, and leave the filter."""
    await asyncio.to_thread(case.topic.write, {"id": 1, "n": 1}, {"id": 2, "n": 2}, {"id": 3, "n": 99})
    await case.open(filter="/n < 50", order_by="/n DESC")
    await case.write({"id": 4, "n": 3}, {"id": 1, "n": 5})
    await case.write({"id": 2, "n": 2})
    await case.write({"id": 2, "n": 70})
    await case.delete({"id": 1}, {"id": 3})
    await case.write({"id": 3, "n": 0}, {"id": 2, "n": 4})


async def deltas(case: Recording) -> None:
    """Deltas change and remove fields, also those below others and those whose names are no words."""
    await case.open()
    body = {"id": 1, "a": {"b": 1, "c": {"d": [1, 2]}}, "odd name": {"x y": 1, "z": None}, "e": None, "": 0}
    await case.write(body)
    await case.merge({"id": 1, "a": {"c": {"d": [3]}}, "f": "new"})
    await case.write({"id": 1, "a": {"c": {}}, "odd name": {"z": 1}, "f": "new", "": 0})
    await case.write({"id": 1, "a": 5, "__proto__": {"x": 1}, "constructor": 1})
    await case.merge({"id": 1, "__proto__": {"y": 2}})
    await case.write({"id": "1", "a": []})


async def whole(case: Recording) -> None:
    """A view may ask for whole records: it shows the same."""
    await case.open(delta=False)
    await case.write({"id": 1, "n": 1, "more": {"a": 1}})
    await case.merge({"id": 1, "more": {"b": 2}})
    await case.delete({"id": 1})


async def expired(case: Recording) -> None:
    """A record leaves because it has expired."""
    await case.open()
    await case.client.publish(case.topic.name, {"id": 1}, expiration=0.5, wait=True)
    await case.view.wait_for(lambda view: len(view) == 1)
    await case.view.wait_for(lambda view: not view)
    await case.prove()


async def page(case: Recording) -> None:
    """A page of the second to the fourth record: others push its records out, and its window moves."""
    await asyncio.to_thread(case.topic.write, *({"id": number, "n": 10 * number} for number in range(6)))
    await case.open(order_by="/n, /id", top_n=3, skip_n=1)
    await case.write({"id": 6, "n": 15})
    await case.merge({"id": 6, "n": 5})
    await case.delete({"id": 0})
    await case.merge({"id": 2, "n": 99})
    await case.replace(skip_n=3)
    await case.replace(top_n=2, skip_n=0, order_by="/n DESC")
    await case.write({"id": 7, "n": 100})


async def groups(case: Recording) -> None:
    """Groups of records, with sums that change, groups that are new and groups that are gone."""
    await asyncio.to_thread(case.topic.write, {"id": 1, "g": "a", "n": 1}, {"id": 2, "g": "b", "n": 2})
    await case.open(order_by="/g", options="grouping=[/g],projection=[/g,SUM(/n) AS /sum,COUNT(1) AS /count]")
    await case.write({"id": 3, "g": "a", "n": 4}, {"id": 4, "g": "c", "n": 8})
    await case.merge({"id": 2, "g": "a"})
    await case.delete({"id": 4})


async def conflation(case: Recording) -> None:
    """The outcome of an interval is one step."""
    await case.open(options="conflation=300ms")
    await case.write(*({"id": number % 4, "n": number} for number in range(10)))
    await case.delete({"id": 0}, {"id": 1})
    await case.write({"id": 0, "n": 0, "m": 1}, {"id": 2, "n": 0})


async def resumed(case: Recording) -> None:
    """A client resumes at the position of each partition, although messages name only their own."""
    await case.open()
    await case.write(*({"id": number, "n": 0} for number in range(6)))
    await case.write({"id": 3, "n": 1})
    case.may_connect.clear()
    case.connection.lose()
    await asyncio.to_thread(case.topic.write, {"id": 2, "n": 1}, {"id": 9, "n": 1})
    await asyncio.to_thread(case.topic.delete, {"id": 3})
    await case.resumed()
    await case.prove()


async def resumed_page(case: Recording) -> None:
    """A page that comes back gets the difference as one step."""
    await asyncio.to_thread(case.topic.write, *({"id": number, "n": number} for number in range(6)))
    await case.open(order_by="/n", top_n=3)
    case.may_connect.clear()
    case.connection.lose()
    await asyncio.to_thread(case.topic.delete, {"id": 0}, {"id": 2})
    await asyncio.to_thread(case.topic.merge, {"id": 1, "n": 3.5})
    await case.resumed()
    await case.prove()


async def lost_in_a_group(case: Recording) -> None:
    """A connection is lost within a group: the group begins again."""
    await asyncio.to_thread(case.topic.write, *({"id": number} for number in range(30)))
    case.connection.ends_behind = "sow"
    await case.open(filter="/id < 25", batch_size=5)
    await case.write({"id": 30}, {"id": 1, "n": 1})


@contextlib.asynccontextmanager
async def unrecorded(url: str) -> AsyncIterator[AsyncClient]:
    """Lend a client that no case is about."""
    with patch("sowline.client.connection.connect", really_connect):
        async with AsyncClient(url) as client:
            yield client


async def saved(case: Recording) -> None:
    """A view begins with a saved copy, and gets what has changed since."""
    await asyncio.to_thread(case.topic.write, *({"id": number, "n": 0} for number in range(5)))
    async with unrecorded(case.url) as client, client.local_view(case.topic.name) as view:
        bookmark, records = view.saved()
    await asyncio.to_thread(case.topic.merge, {"id": 3, "n": 1})
    await asyncio.to_thread(case.topic.delete, {"id": 4})
    await case.open(order_by="/id", bookmark=bookmark, records=records)
    await case.prove()


async def reset(case: Recording) -> None:
    """The changes since the bookmark are gone: a new group replaces what is held, as ordinary changes."""
    await asyncio.to_thread(case.topic.write, *({"id": number, "n": 0} for number in range(4)))
    await case.open(order_by="/id")
    hasten_compaction(case.system, case.topic.name)
    case.may_connect.clear()
    case.connection.lose()
    await asyncio.to_thread(case.topic.delete, {"id": 2})
    await asyncio.to_thread(compact, case.system, case.topic.name, case.rewrite)
    await case.resumed()
    await case.prove()
    await case.write({"id": 1, "n": 9})


async def replaced(case: Recording) -> None:
    """A view is replaced: other records, another order, other fields; a refused one changes nothing."""
    await asyncio.to_thread(case.topic.write, *({"id": number, "b": number % 3} for number in range(9)))
    await case.open(filter="/b = 0", order_by="/id")
    await case.replace(filter="/b = 1 OR /id = 3")
    await case.replace(filter="/b =")
    await case.replace(order_by="/b DESC, /id DESC")
    await case.replace(top_n=2)
    await case.write({"id": 9, "b": 1}, {"id": 4, "b": 2})


async def replaced_while_lost(case: Recording) -> None:
    """The connection is lost before a replacement is answered: the old subscription resumes, and is replaced then."""
    await asyncio.to_thread(case.topic.write, *({"id": number, "b": number % 3} for number in range(9)))
    await case.open(filter="/b = 0", order_by="/id")
    case.connection.ends_after = "1.1"
    await case.replace(filter="/b = 1")
    await case.write({"id": 9, "b": 1})


async def page_to_groups(case: Recording) -> None:
    """Groups that replace a page are sent whole, as a reset."""
    await asyncio.to_thread(case.topic.write, *({"id": number, "g": "ab"[number % 2]} for number in range(5)))
    await case.open(order_by="/id", top_n=2, skip_n=1)
    await case.replace(
        order_by="/g", skip_n=0, top_n=5, options="grouping=[/g],projection=[/g,COUNT(1) AS /count]"
    )
    await case.write({"id": 5, "g": "c"})


async def integers(case: Recording) -> None:
    """Integers beyond 2^53 keep their value, and their order."""
    big = 2**53
    await case.open(order_by="/n DESC, /id")
    await case.write(*({"id": number, "n": big + number} for number in (3, 1, 2)), {"id": 4, "n": -big - 7})
    await case.merge({"id": 1, "n": 18446744073709551615, "list": [big + 1, {"m": -big - 1}]})
    await case.merge({"id": 1, "list": [big + 2, 9.5, True, None, "x"]})


async def orders(case: Recording) -> None:
    """NULL is first, then numbers and booleans, then strings by code point; an array counts as its first element."""
    values = [
        5,
        -1,
        2.5,
        True,
        False,
        None,
        "",
        "b",
        "Z",
        "10",
        "é",
        "\ufffd",
        "\U0001f600",
        [],
        [7, 1],
        ["a"],
        {"x": 1},
    ]
    await asyncio.to_thread(
        case.topic.write, *({"id": n, "v": value} for n, value in enumerate(values)), {"id": 99}
    )
    await case.open(order_by="/v")
    await case.replace(order_by="/v DESC")
    await case.replace(order_by="/v TEXT")
    await case.replace(order_by="/v DESC TEXT, /id")


async def without_sow(case: Recording) -> None:
    """A topic without a SOW has no view: its first message ends it."""
    case.lines.append({"view": {"topic": "orders"}})
    case.view = case.client.local_view(case.topic.name)
    await case.view.__aenter__()
    await asyncio.to_thread(case.topic.write, {"id": 1})
    with contextlib.suppress(SowlineError):
        await case.view.wait_for(lambda view: False)
    case.lines.append({"error": "no sow"})


SCENARIOS: dict[str, tuple[Scenario, Json]] = {
    scenario.__name__: (scenario, {"key": ["/id"], "partitions": 2, "key_domain": "orders"} | definition)
    for scenario, definition in (
        (records, {}),
        (deltas, {}),
        (whole, {}),
        (expired, {"expiration": "enabled"}),
        (page, {}),
        (groups, {}),
        (conflation, {}),
        (resumed, {}),
        (resumed_page, {}),
        (lost_in_a_group, {}),
        (saved, {}),
        (reset, {"partitions": 1}),
        (replaced, {}),
        (replaced_while_lost, {}),
        (page_to_groups, {}),
        (integers, {}),
        (orders, {}),
    )
}
SCENARIOS["without_sow"] = (without_sow, {"sow": False, "partitions": 2})
