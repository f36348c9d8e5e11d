"""Tables over HTTP, of a query service and of a gateway: what a client gets of records, and a role does not learn."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pytest

from sowline.client.async_client import AsyncClient
from sowline.errors import SowlineError
from sowline.serving.http import tables
from sowline.wire.media_types import ARROW
from tests.described import check_response
from tests.unit.gateway.native import DECODERS, served
from tests.unit.gateway.rig import Rig

pytestmark = pytest.mark.slow

services = pytest.mark.parametrize("is_gateway", [False, True], ids=["query service", "gateway"])


@asynccontextmanager
async def lent(
    is_gateway: bool, access: str = "", token: str | None = None
) -> AsyncIterator[tuple[Rig, AsyncClient]]:
    """Lend a rig, and a client of its service."""
    async with served("json", is_gateway=is_gateway, access=access) as (made, url):
        with made.patched(), made.whole.patched():
            async with AsyncClient(url, token=token) as client:
                yield made, client


@services
async def test_a_table(is_gateway: bool) -> None:
    """Each field is a column; missing and null are one null, and the schema names the instant."""
    async with lent(is_gateway) as (made, client):
        made.put({"id": 1, "price": 2, "open": True, "note": None})
        made.put({"id": 2, "price": 2.5, "legs": [{"qty": 1}]})
        made.put({"id": 3, "name": "é"})
        table = await client.table("orders", order_by="/id")
        bookmark = [one async for one in client.sow("orders")][-1].bookmark
    assert table.select(["id", "legs", "name", "note", "open", "price"]).to_pylist() == [
        {"id": 1, "legs": None, "name": None, "note": None, "open": True, "price": 2.0},
        {"id": 2, "legs": '[{"qty":1}]', "name": None, "note": None, "open": None, "price": 2.5},
        {"id": 3, "legs": None, "name": "é", "note": None, "open": None, "price": None},
    ]
    assert table.schema.metadata == {b"sowline.topic": b"orders", b"sowline.bookmark": str(bookmark).encode()}


@services
@pytest.mark.parametrize("message_type", DECODERS)
async def test_every_message_type(message_type: str, is_gateway: bool) -> None:
    """The columns are those of the records as JSON has them."""
    async with served(message_type, is_gateway=is_gateway) as (made, url), AsyncClient(url) as client:
        with made.patched(), made.whole.patched():
            made.put({"id": 1, "qty": 10, "note": "é"})
            table = await client.table("orders", columns=["/note", "/qty"])
    assert table.to_pylist() == [{"note": "é", "qty": 10}]
    assert table.schema.types == [pa.string(), pa.int64()]


@services
async def test_chosen_records_and_columns(is_gateway: bool) -> None:
    """A filter, a page, and groups are those of any query."""
    async with lent(is_gateway) as (made, client):
        for number in range(30):
            made.put({"id": number, "side": "buy" if number % 3 else "sell", "x": "1" if number == 7 else 1})
        some = await client.table("orders", filter="/id < 5", columns={"/id": "double"}, order_by="/id")
        page = await client.table("orders", columns=["/id"], order_by="/id DESC", top_n=2, skip_n=3)
        options = "grouping=[/side],projection=[/side,COUNT(1) AS /n]"
        groups = await client.table("orders", options=options, order_by="/side")
        everything = await client.table("orders", columns={"/x": "text"})
    assert some.to_pydict() == {"id": [0.0, 1.0, 2.0, 3.0, 4.0]}
    assert page.to_pydict() == {"id": [26, 25]}
    assert groups.to_pydict() == {"n": [20, 10], "side": ["buy", "sell"]}
    assert everything["x"].to_pylist() == ["1"] * 30


@services
async def test_an_earlier_instant(is_gateway: bool) -> None:
    """The records as they were at a bookmark, and their columns."""
    async with lent(is_gateway) as (made, client):
        made.put({"id": 1, "v": 1})
        bookmark = [one async for one in client.sow("orders")][-1].bookmark
        made.put({"id": 1, "v": "changed", "more": True})
        made.put({"id": 2, "v": "new"})
        table = await client.table("orders", bookmark=bookmark or "")
    assert table.to_pylist() == [{"id": 1, "v": 1}]
    assert table.schema.metadata[b"sowline.bookmark"].decode() == bookmark


@services
async def test_changes_between_the_passes(is_gateway: bool) -> None:
    """The second pass is of the instant of the first, whatever is written meanwhile."""
    async with lent(is_gateway) as (made, client):
        made.put({"id": 1, "v": 1})
        again = tables.begun_again

        async def later(*given: Any) -> Any:
            made.put({"id": 1, "v": "changed"})
            made.put({"id": 2, "other": 1})
            return await again(*given)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(tables, "begun_again", later)
            table = await client.table("orders")
    assert table.to_pylist() == [{"id": 1, "v": 1}]


@services
async def test_mixed_values(is_gateway: bool) -> None:
    """The error names two records and the column; as text, all of them are there."""
    async with lent(is_gateway) as (made, client):
        made.put({"id": 1, "v": 1})
        made.put({"id": 2, "v": "two"})
        with pytest.raises(SowlineError, match="expected values of one type in the column v, got") as refused:
            await client.table("orders")
        table = await client.table("orders", columns={"/v": "text"}, order_by="/id")
    assert refused.value.reason == "bad column"
    assert table.to_pydict() == {"v": ["1", "two"]}


@services
async def test_over_http(is_gateway: bool) -> None:
    """The answers are as the protocol description has them; no other answer has columns."""
    async with served("json", is_gateway=is_gateway) as (made, url):
        with made.patched(), made.whole.patched():
            made.put({"id": 1})
            hooks = {"response": [check_response]}
            async with httpx2.AsyncClient(base_url=url, event_hooks=hooks) as http:
                asked = {"columns": ["/id"]}
                accept = {"accept": f"{ARROW}, application/json;q=0.5"}
                answer = await http.post("/v1/topics/orders/sow", json=asked, headers=accept)
                refused = await http.post("/v1/topics/orders/sow", json=asked)
    assert (answer.status_code, answer.headers["content-type"]) == (200, ARROW)
    assert answer.headers["sowline-bookmark"].startswith("orders:")
    assert pa.ipc.open_stream(answer.content).read_all().to_pydict() == {"id": [1]}
    assert (refused.status_code, refused.json()["reason"]) == (400, "bad request")


ROLE = {"topics": "orders", "filter": "/desk = 'NY'", "select": "[-/,+/id,+/desk,+/v]"}


@pytest.fixture
def access(tmp_path: Path) -> str:
    """An access file with a role that may see some fields of some records."""
    path = tmp_path / "access.yaml"
    token = {"user": "trader", "sha256": sha256(b"secret").hexdigest(), "roles": ["desk"]}
    path.write_text(json.dumps({"tokens": [token], "roles": {"desk": {"read": [ROLE]}}}))
    return str(path)


def fill(made: Rig) -> None:
    """Make a record that the role may see, and one that it may not, whose values are of other types."""
    made.put({"id": 1, "desk": "NY", "v": 1, "hidden_field": {"deep": 1}})
    made.put({"id": 2, "desk": "LN", "v": "hidden value", "hidden_field": 7, "hidden_too": 1})


@services
async def test_a_role_learns_nothing(is_gateway: bool, access: str) -> None:
    """Neither the name of a field nor the type of a value that it may not see is in the schema, or in an error."""
    async with lent(is_gateway, access, "secret") as (made, client):
        fill(made)
        table = await client.table("orders")
        paths = ["/v", "/hidden_field", "/hidden_field/deep", "/no_such_field"]
        asked = await client.table("orders", columns=paths)
        typed = await client.table("orders", columns={"/hidden_field": "bool", "/no_such_field": "bool"})
    assert table.sort_by("id").to_pydict() == {"desk": ["NY"], "id": [1], "v": [1]}
    assert b"hidden" not in bytes(table.schema.serialize())
    # A field that may not be seen is as one that no record has.
    assert asked.to_pydict() == {path[1:]: [1 if path == "/v" else None] for path in paths}
    assert asked.schema.types == [pa.int64(), pa.null(), pa.null(), pa.null()]
    assert typed.to_pydict() == {"hidden_field": [None], "no_such_field": [None]}


@services
async def test_a_role_learns_nothing_by_an_error(is_gateway: bool, access: str) -> None:
    """Only values that it may see are in conflict, and only their records are named."""
    async with lent(is_gateway, access, "secret") as (made, client):
        fill(made)
        made.put({"id": 3, "desk": "NY", "v": True})
        with pytest.raises(SowlineError) as refused:
            await client.table("orders")
        visible = [one.sow_key async for one in client.sow("orders") if one.command == "sow"]
    assert refused.value.reason == "bad column"
    assert "column v, got" in refused.value.message
    assert all(f"record {key}" in refused.value.message for key in visible)
    assert "hidden" not in refused.value.message
    assert "string" not in refused.value.message


@services
async def test_a_role_without_the_topic(is_gateway: bool, access: str) -> None:
    """It gets the error of any other read."""
    async with lent(is_gateway, access, "secret") as (_, client):
        for topic in ("others", "none"):
            with pytest.raises(SowlineError) as refused:
                await client.table(topic, columns=["/id"])
            assert refused.value.reason == "not entitled"
