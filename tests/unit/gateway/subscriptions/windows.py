"""Pages and groups that a client of a gateway holds, and what one query service shows."""

import json
from typing import Any

from tests.unit.gateway.rig import Json, Rig
from tests.unit.gateway.subscriber import Subscriber

GROUPING = "grouping=[/v]"
COUNTS = f"projection=[/v,COUNT(1) AS /n,SUM(/id) AS /s,MIN(/id) AS /low,MAX(/id) AS /high],{GROUPING}"

KINDS: dict[str, Json] = {
    "page": {"order_by": "/v,/id", "skip_n": 3, "top_n": 5, "options": "oof"},
    "page by key": {"skip_n": 0, "top_n": 4, "options": "oof"},
    "groups": {"options": f"oof,{COUNTS}"},
    "page of groups": {"options": f"oof,{COUNTS}", "order_by": "/n DESC,/v", "skip_n": 1, "top_n": 3},
}


async def expected(made: Rig, kind: Json) -> dict[str, Json]:
    """Return what one query service answers to a query now."""
    request = {name: value for name, value in kind.items() if name not in ("bookmark", "command")}
    request["options"] = kind["options"].replace("oof,", "").replace("oof", "")
    answer = await made.whole_client().ask("sow", **request)
    assert answer[-1]["status"] == "success", answer
    batches = [message["records"] for message in answer if message["command"] == "sow"]
    return {record["sow_key"]: record["data"] for records in batches for record in records}


async def settled(mine: Subscriber, made: Rig, kind: Json) -> None:
    """Wait until the client holds what one query service shows."""
    wanted = await expected(made, kind)
    await mine.until(lambda: mine.held == wanted, f"to hold {wanted}, not {mine.held}")


def steps(messages: list[Json]) -> list[list[tuple[str, str, Any, Any]]]:
    """Return the live messages by step, each step without an order."""
    found: list[list[tuple[str, str, Any, Any]]] = [[]]
    for one in messages:
        if one["command"] in ("publish", "oof"):
            found[-1].append((one["command"], one["sow_key"], json.dumps(one["data"]), one.get("reason")))
            if not one.get("more"):
                found.append([])
    return [sorted(step) for step in found if step]
