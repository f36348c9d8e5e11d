"""Whatever somebody asks for, in whatever order: nothing comes of what they may not see."""

import json
import random
from typing import Any

import pytest

from sowline.language.filter import compile_filter
from sowline.model.select import parse_select
from sowline.serving.authorization.entitlements import Entitlement, Rights, to_read
from tests.unit.query_service.sessions import Client, Json, Server

RIGHTS = Rights(
    to_read(Entitlement("orders", compile_filter("/desk = 'NY'"), parse_select("[-/secret,-/more/secret]")))
)
COMMANDS = ("sow_and_subscribe", "subscribe", "delta_subscribe", "sow_and_delta_subscribe")
GROUPS = "projection=[/n,COUNT(/id) AS /c],grouping=[/n]"
OPTIONS = (
    "",
    "oof",
    "oof",
    "oof,conflation=1ms",
    "no_empties",
    "oof,select=[+/secret,+/n]",
    f"{GROUPS},oof",
    f"{GROUPS},oof",
)
FILTERS = ("", "", "", "/n = 1", "/desk = 'LN'", "/x IS NULL", "SOW_KEY() > '1'")
STEPS = 30


def record(chance: random.Random) -> Json:
    """Return a record, of which all that may not be seen says HIDDEN."""
    number, secret = chance.randrange(5), f"HIDDEN{chance.randrange(3)}"
    common = {"id": number, "n": chance.randrange(3), "secret": secret, "more": {"secret": secret}}
    if chance.random() < 0.5:
        return common | {"desk": "NY", "x": chance.randrange(2)}
    return common | {"desk": "LN", "name": "HIDDEN"}


def ask(client: Client, chance: random.Random, bookmarks: list[str], step: int) -> None:
    """Ask for something: a subscription in place of another or one that comes back, a page, groups."""
    options = chance.choice(OPTIONS)
    fields: dict[str, Any] = {"sub_id": chance.choice("ab"), "options": f"{options},replace".strip(",")}
    if chance.random() < 0.5:
        fields |= {"top_n": 2, "skip_n": chance.randrange(3), "order_by": "/n"}
    if bookmarks and chance.random() < 0.2:
        fields |= {"bookmark": chance.choice(bookmarks), "options": options, "sub_id": str(step)}
    client.ask(chance.choice(COMMANDS), filter=chance.choice(FILTERS), command_id=str(step), **fields)


@pytest.mark.parametrize("seed", range(40))
async def test_nothing_hidden_comes(seed: int) -> None:
    """While records change, leave and come back, and the client is paused or too slow."""
    chance = random.Random(seed)
    server = Server(ring=chance.choice([3, 1000]), backlog=chance.choice([200, 1 << 20])).loaded()
    bookmarks: list[str] = []
    with server.patched():
        client = server.connect(RIGHTS)
        for step in range(STEPS):
            drawn = chance.random()
            if drawn < 0.4:
                ask(client, chance, bookmarks, step)
            elif drawn < 0.55:
                client.ask(chance.choice(["pause", "resume"]), sub_id=chance.choice("ab"))
            else:
                server.put(record(chance))
            if chance.random() < 0.3 or step == STEPS - 1:
                received = await client.read()
                assert "HIDDEN" not in json.dumps(received)
                bookmarks += [message["bookmark"] for message in received if message.get("bookmark")]
