"""What a user is told does not depend on what happens out of its sight.

Two services take the same changes of records that the user may see. Whatever happens to records that it may not see
differs: their bodies, their metadata, and whether they are deleted. All that the user is told is the same in both.
"""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from sowline.changes.change import Change
from sowline.language.emodb.writes import Writes
from sowline.language.filter import compile_filter
from sowline.model.key import sow_key
from sowline.model.position import Position
from sowline.model.select import parse_select
from sowline.serving.authorization.entitlements import Entitlement, Rights, to_read
from tests.examples import examples
from tests.property.clock import ClockLoop
from tests.unit.query_service.sessions import DOMAIN, Client, Json, Server

RIGHTS = [
    Rights(to_read(Entitlement("orders", compile_filter("/desk = 'NY'")))),
    Rights(to_read(Entitlement("orders", compile_filter("/desk = 'NY'"), parse_select("[-/secret]")))),
]
IDS = range(2)
OPTIONS = [
    "oof",
    "oof,intrinsics",
    "oof,timestamp",
    "intrinsics",
    "oof,conflation=50ms,intrinsics",
    "oof,no_redundant",
]
PAGES: list[Json] = [
    {},
    {"top_n": 3, "skip_n": 0, "order_by": "/n"},
    {"top_n": 2, "skip_n": 1, "order_by": "/n DESC"},
]
GROUPS = "oof,grouping=[/g],projection=[/g,COUNT(/id) AS /c,SUM(/n) AS /s]"

QUERIES: list[Json] = [
    {"order_by": "/id"},
    {"order_by": "/id DESC", "options": "intrinsics,rank"},
    {"order_by": "/g", "options": GROUPS},
    {"order_by": "/n", "filter": "/n > 0"},
]


class Step(NamedTuple):
    """A change of a record: its body in sight, or None; and for each world what it is out of sight, None if gone."""

    number: int
    seen: Json | None
    deletes: bool
    unseen: tuple[Json | None, Json | None]


@dataclass
class World:
    """A service, and a client of the user."""

    loop: ClockLoop
    which: int
    rights: Rights
    server: Server = field(init=False)
    client: Client = field(init=False)
    bodies: dict[int, bytes] = field(default_factory=dict)
    writes: dict[int, Writes] = field(default_factory=dict)
    received: list[Json] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server = Server(definition="{name: orders, key: /id, documents: true}").loaded()
        self.client = self.server.connect(self.rights)

    def is_seen(self, number: int) -> bool:
        """Return whether the user may see a record now."""
        body = self.bodies.get(number)
        return body is not None and json.loads(body)["desk"] == "NY"

    def write(self, step: Step) -> None:
        """Let a change arrive."""
        number, previous = step.number, self.bodies.get(step.number)
        hidden = step.unseen[self.which]
        if step.seen is not None:
            now: Json | None = {**step.seen, "desk": "NY"}
        elif self.is_seen(number):
            now = None if step.deletes else {**(hidden or {}), "desk": "LN"}
        else:
            now = None if hidden is None else {**hidden, "desk": "LN"}
        text = None if now is None else json.dumps({"id": number, **now}, separators=(",", ":")).encode()
        self._take(number, text, previous, is_sent=step.seen is not None or self.is_seen(number))

    def _take(self, number: int, text: bytes | None, previous: bytes | None, *, is_sent: bool) -> None:
        after = self.server.last[0]
        position = Position(0, after.offset + 1)
        before = self.writes.get(number)
        time = 1000 + position.offset
        tag = "seen" if is_sent else f"unseen-{self.which}"
        writes = Writes(
            1 if before is None else before.version + 1,
            f"{position.offset:032x}",
            time if before is None else before.first,
            time,
            time,
            (tag,),
            f"{position.offset:032x}" if is_sent else f"{self.which:032x}",
        )
        op, reason = ("delete", "deleted") if text is None else ("publish", None)
        self.server.take(
            Change(
                sow_key(DOMAIN, str(number)),
                text,
                previous,
                position,
                after,
                op,
                time,
                True,
                reason,
                correlation=tag,
                key_text=str(number),
                writes=writes,
                writes_before=before,
            )
        )
        self.writes[number] = writes
        self.bodies.pop(number, None)
        if text is not None:
            self.bodies[number] = text

    async def read(self) -> None:
        """Read all that comes, also at the end of an interval."""
        await self.loop.rest()
        self.received += await self.client.read()
        await self.loop.tick(100)
        self.received += await self.client.read()

    def come_back(self) -> str:
        """Lose the connection, and make another one; return the client's bookmark."""
        bookmarks: list[str] = [m["bookmark"] for m in self.received if "bookmark" in m and "more" not in m]
        self.client.session.close()
        self.client = self.server.connect(self.rights)
        return bookmarks[-1]


bodies = st.fixed_dictionaries(
    {"n": st.integers(0, 3), "g": st.sampled_from("ab")}, optional={"secret": st.integers(0, 2)}
)
steps = st.builds(
    Step,
    st.sampled_from(IDS),
    st.none() | bodies,
    st.booleans(),
    st.tuples(st.none(), bodies) | st.tuples(bodies, bodies),
)
asks = st.tuples(
    st.sampled_from(["sow_and_subscribe", "sow_and_subscribe", "sow_and_delta_subscribe", "subscribe"]),
    st.sampled_from(OPTIONS),
    st.sampled_from(PAGES),
    st.sampled_from(["", "", "/n > 0"]),
)


def _fields(ask: tuple[str, str, Json, str], word: str = "") -> Json:
    command, options, page, filter = ask
    if page and command == "subscribe":
        command = "sow_and_subscribe"
    order = {} if command == "subscribe" else {"order_by": "/id"}
    return {
        "command": command,
        "sub_id": "s",
        "options": f"{options}{word}",
        "filter": filter,
        **order,
        **page,
    }


def _comparable(message: Json) -> Json:
    return {name: value for name, value in message.items() if name not in ("topic_matches", "lag_seconds")}


BODY: Json = {"n": 1, "g": "a"}
SHOWN = Step(0, BODY, False, (BODY, BODY))
HIDDEN = [SHOWN._replace(seen=None), SHOWN._replace(seen=None, unseen=(None, BODY))]
DELETED = [SHOWN._replace(seen=None, deletes=True), SHOWN._replace(seen=None, unseen=(None, BODY))]
PAGE = "sow_and_subscribe", "oof,intrinsics", PAGES[1], ""
RECORDS = "sow_and_subscribe", "oof,intrinsics", PAGES[0], ""


@examples(60)
@example(RIGHTS[0], (PAGE, PAGE), [[SHOWN], [SHOWN], HIDDEN, [SHOWN]], "pause")
@example(RIGHTS[0], (PAGE, PAGE), [[SHOWN], [SHOWN], DELETED, [SHOWN]], "back")
@example(RIGHTS[0], (PAGE, PAGE), [[SHOWN], [SHOWN], HIDDEN, [SHOWN]], "replace")
@example(RIGHTS[0], (RECORDS, RECORDS), [[SHOWN], [SHOWN], HIDDEN, [SHOWN]], "replace")
@example(RIGHTS[0], (RECORDS, RECORDS), [[SHOWN], [SHOWN], DELETED, [SHOWN]], "replace")
@given(
    rights=st.sampled_from(RIGHTS),
    asked=st.tuples(asks, asks),
    writes=st.lists(st.lists(steps, min_size=1, max_size=6), min_size=4, max_size=4),
    way=st.sampled_from(["pause", "back", "replace"]),
)
def test_only_what_is_in_sight_is_sent(
    rights: Rights, asked: Any, writes: Sequence[Sequence[Step]], way: str
) -> None:
    """By a subscription that is live, paused, replaced, or comes back."""
    loop = ClockLoop()
    with ExitStack() as stack:
        stack.callback(loop.close)
        worlds = []
        for which in (0, 1):
            world = World(loop, which, rights)
            with world.server.patched():
                loop.run_until_complete(_run(world, asked, writes, way))
            worlds.append(world)
    first, second = ([_comparable(message) for message in world.received] for world in worlds)
    assert first == second


async def _run(world: World, asked: Any, writes: Sequence[Sequence[Step]], way: str) -> None:
    first, then = asked
    for step in writes[0]:
        world.write(step)
    world.client.ask(**_fields(first))
    await world.read()
    for step in writes[1]:
        world.write(step)
        await world.read()
    if way == "back":
        bookmark = world.come_back()
    else:
        world.client.ask("pause", sub_id="s")
        await world.read()
    for step in writes[2]:
        world.write(step)
    if way == "back":
        world.client.ask(**_fields(first), bookmark=bookmark)
    elif way == "pause":
        world.client.ask("resume", sub_id="s")
    else:
        world.client.ask(**_fields(then, ",replace"))
    await world.read()
    for step in writes[3]:
        world.write(step)
    await world.read()
    for fields in QUERIES:
        world.client.ask("sow", query_id="q", **fields)
        world.client.ask("explain", query_id="q", **fields)
        await world.read()
    world.client.session.close()
    await world.loop.rest()
