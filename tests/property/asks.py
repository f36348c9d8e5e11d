"""Subscriptions that tests ask for, and what there is to show to their clients; worked out from the records."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hypothesis import strategies as st

from sowline.language.filter import compile_filter
from sowline.model.key import sow_key
from sowline.model.position import Position
from sowline.model.select import parse_select
from sowline.serving.authorization.entitlements import EVERYTHING, Entitlement, Rights, to_read
from tests.unit.query_service.sessions import DOMAIN, Json

IDS = range(6)
ID_OF = {sow_key(DOMAIN, str(number)).decode(): number for number in IDS}
KEY_OF = {number: key for key, number in ID_OF.items()}
Key = tuple[str, Any]
"""What a subscriber holds by: the name and the value of a key field, or of the field that groups are made by."""

View = dict[Key, Json]

FILTERS: dict[str, Callable[[Json], bool]] = {
    "": lambda body: True,
    "/n > 1": lambda body: body["n"] > 1,
    "/n = 1 OR /g = 'b'": lambda body: body["n"] == 1 or body["g"] == "b",
    "/n > 0 AND /g = 'a'": lambda body: body["n"] > 0 and body["g"] == "a",
    "/o/x = 1": lambda body: isinstance(body.get("o"), dict) and body["o"].get("x") == 1,
}
SELECTS = {
    "": {"": True},
    "[-/,+/id,+/n]": {"": False, "/id": True, "/n": True},
    "[-/o/x]": {"": True, "/o/x": False},
    "[-/,+/g,+/o/y]": {"": False, "/g": True, "/o/y": True},
}
"""By clause: whether a path is sent."""


class Mine(NamedTuple):
    """What a client may see: rights, and what they say of a record and of its fields."""

    rights: Rights
    sees: Callable[[Json], bool] = lambda body: True
    paths: dict[str, bool] = {"": True}  # noqa: RUF012 - it is never changed


MINE = {
    "everything": Mine(EVERYTHING),
    "some records": Mine(
        Rights(to_read(Entitlement("orders", compile_filter("/n < 3")), Entitlement("^.*"))),
        lambda body: body["n"] < 3,
    ),
    "some fields": Mine(
        Rights(
            to_read(
                Entitlement("^ord.*", compile_filter("/g = 'a' OR /n = 0"), parse_select("[-/t,-/o/y]")),
                Entitlement("^.*"),
            )
        ),
        lambda body: body["g"] == "a" or body["n"] == 0,
        {"": True, "/t": False, "/o/y": False},
    ),
}

ORDERS: dict[str, Callable[[Json], Any]] = {
    "": lambda body: (),
    "/n": lambda body: body["n"],
    "/g, /n DESC": lambda body: (body["g"], -body["n"]),
}


def selected(body: Json, paths: dict[str, bool], at: str = "") -> Json:
    """Return the fields of a body that are sent; an object without any is left out."""
    sent = {}
    for name, value in body.items():
        path = f"{at}/{name}"
        inner = {path: paths.get(path, paths[at])} | {p: on for p, on in paths.items() if p != at}
        if isinstance(value, dict):
            if below := selected(value, inner, path):
                sent[name] = below
        elif inner[path]:
            sent[name] = value
    return sent


class Record(NamedTuple):
    """A record as its last change left it."""

    body: Json
    time: int
    partition: int
    position: Position


Records = dict[int, Record]


# groups


def _counted(field: str, members: list[Record]) -> Json:
    bodies = [member.body for member in members]
    return {field: bodies[0][field], "c": len(bodies), "s": sum(body["n"] for body in bodies)}


def _greatest(field: str, members: list[Record]) -> Json:
    return {field: members[0].body[field], "most": max(member.body["id"] for member in members)}


def _latest(field: str, members: list[Record]) -> Json:
    last = max(members, key=lambda member: (member.time, member.partition, member.position))
    return {field: last.body[field], "id": last.body["id"]}


class Grouping(NamedTuple):
    """A grouping by one field, its projection, and the order in which pages of it are."""

    field: str
    projection: str
    made: Callable[[str, list[Record]], Json]
    order: str
    order_key: Callable[[Json], Any]
    tells_latest: bool = False


GROUPINGS = [
    Grouping(
        "g", "/g,COUNT(/id) AS /c,SUM(/n) AS /s", _counted, "/s DESC,/g", lambda body: (-body["s"], body["g"])
    ),
    Grouping("n", "/n,MAX(/id) AS /most", _greatest, "/most,/n", lambda body: (body["most"], body["n"])),
    Grouping("g", "/g,/id", _latest, "/id", lambda body: body["id"], tells_latest=True),
]


# what is asked


@dataclass(frozen=True)
class Ask:
    """A subscription's command."""

    command: str
    filter: str = ""
    select: str = ""
    words: tuple[str, ...] = ()
    conflation: str = ""
    sow_keys: tuple[int, ...] = ()
    topic: str = "orders"
    order: str = ""
    top_n: int | None = None
    skip_n: int | None = None
    grouping: Grouping | None = None
    batch_size: int = 1
    whose: str = "everything"

    @property
    def mine(self) -> Mine:
        """What the client may see."""
        return MINE[self.whose]

    @property
    def oof(self) -> bool:
        """Whether it is sent what leaves."""
        return "oof" in self.words

    @property
    def delta(self) -> bool:
        """Whether it is sent what has changed."""
        return "delta" in self.command

    @property
    def has_snapshot(self) -> bool:
        """Whether it begins with a group."""
        return self.command.startswith("sow")

    @property
    def is_window(self) -> bool:
        """Whether it is of a page or of groups."""
        return self.skip_n is not None or self.grouping is not None

    @property
    def is_limited(self) -> bool:
        """Whether only the first group has a limit."""
        return self.top_n is not None and self.skip_n is None and self.has_snapshot

    @property
    def interval(self) -> int | None:
        """The length of an interval in ms; None where there is none, or it depends."""
        return int(self.conflation.removesuffix("ms")) if self.conflation.endswith("ms") else None

    @property
    def order_by(self) -> str:
        """The order."""
        return self.grouping.order if self.grouping is not None and self.order else self.order

    def replaced_by(self, now: "Ask") -> str:
        """What becomes of another command that is to replace this one: `replace`, or why it is refused."""
        if now.is_window != self.is_window:
            return "not supported"
        if self.top_n is not None and now.top_n is None:
            return "invalid top_n"
        if self.skip_n is not None and now.skip_n is None:
            return "invalid skip_n"
        return "invalid order by" if self.order_by and not now.order_by else "replace"

    def fields(self, *words: str) -> Json:
        """The fields of the command."""
        options = [*self.words, *words]
        options += [f"conflation={self.conflation}"] if self.conflation else []
        options += [f"select={self.select}"] if self.select else []
        if self.grouping is not None:
            options += [f"grouping=[/{self.grouping.field}]", f"projection=[{self.grouping.projection}]"]
        asked = {
            "command": self.command,
            "filter": self.filter,
            "options": ",".join(options),
            "sow_keys": [KEY_OF[number] for number in self.sow_keys],
            "topic": self.topic,
            "order_by": self.order_by,
            "top_n": self.top_n,
            "skip_n": self.skip_n,
            "batch_size": self.batch_size,
        }
        return {name: value for name, value in asked.items() if value not in ("", None, [])}

    def matching(self, records: Records) -> Records:
        """The records that match."""
        matches = FILTERS[self.filter]
        return {
            number: record
            for number, record in records.items()
            if matches(record.body)
            and self.mine.sees(record.body)
            and (not self.sow_keys or number in self.sow_keys)
        }

    def all(self, records: Records) -> View:
        """Everything that there is to show, in order, whatever the limits."""
        found = self.matching(records)
        if self.grouping is not None:
            return self._groups(found)
        order_key = ORDERS[self.order]
        keys = sorted(found, key=lambda number: (order_key(found[number].body), KEY_OF[number]))
        return {("id", number): found[number].body for number in keys}

    def _groups(self, found: Records) -> View:
        grouping = self.grouping
        assert grouping is not None
        members: dict[Any, list[Record]] = {}
        for record in found.values():
            members.setdefault(record.body[grouping.field], []).append(record)
        made = [grouping.made(grouping.field, some) for some in members.values()]
        return {
            (grouping.field, body[grouping.field]): body
            for body in (sorted(made, key=grouping.order_key) if self.order else made)
        }

    def view(self, records: Records) -> View:
        """What is to be held: of all records."""
        shown = self.all(records)
        return self.first(shown) if self.skip_n is not None else shown

    def first(self, shown: View) -> View:
        """What a first group holds of it."""
        start = self.skip_n or 0
        return dict(list(shown.items())[start : None if self.top_n is None else start + self.top_n])

    def sent(self, body: Json) -> Json:
        """The fields of a body that are sent."""
        return selected(selected(body, self.mine.paths), SELECTS[self.select])


words = st.lists(st.sampled_from(["oof", "oof", "no_empties", "timestamp"]), max_size=3, unique=True).map(
    tuple
)
conflations = st.sampled_from(["", "", "50ms", "200ms", "auto"])
limits = st.tuples(st.integers(0, 3), st.integers(0, 2))


@st.composite
def asks_for_records(
    draw: st.DrawFn, filters: Sequence[str] = list(FILTERS), orders: Sequence[str] = list(ORDERS)
) -> Ask:
    """Records, one by one."""
    command = draw(
        st.sampled_from(
            [
                "sow_and_subscribe",
                "sow_and_subscribe",
                "sow_and_delta_subscribe",
                "subscribe",
                "delta_subscribe",
            ]
        )
    )
    select = draw(st.sampled_from([*SELECTS, ""]))
    more = ("no_sowkey",) if select != "[-/,+/g,+/o/y]" and draw(st.booleans()) else ()
    return Ask(
        command,
        draw(st.sampled_from(filters)),
        select,
        draw(words) + more,
        draw(conflations),
        draw(st.sampled_from([(), (), (0, 1, 3)])),
        draw(st.sampled_from(["orders", "orders", "^ord.*"])),
        draw(st.sampled_from(orders)),
        draw(st.sampled_from([None, None, None, 2])),
        batch_size=draw(st.sampled_from([1, 3])),
    )


@st.composite
def asks_for_views(
    draw: st.DrawFn,
    filters: Sequence[str] = list(FILTERS),
    orders: Sequence[str] = list(ORDERS),
    groupings: Sequence[Grouping] = GROUPINGS,
) -> Ask:
    """Pages and groups."""
    grouping = draw(st.sampled_from([None, *groupings]))
    is_page = grouping is None or draw(st.booleans())
    top, skip = draw(limits)
    order = draw(st.sampled_from(orders))
    if grouping is not None:
        order = "yes" if is_page or draw(st.booleans()) else ""
    limited = order and draw(st.integers(0, 3)) == 0
    return Ask(
        draw(st.sampled_from(["sow_and_subscribe", "sow_and_delta_subscribe"])),
        draw(st.sampled_from(filters)),
        draw(st.sampled_from(list(SELECTS))) if grouping is None else "",
        draw(words),
        draw(conflations),
        order=order,
        top_n=top if is_page or limited else None,
        skip_n=skip if is_page else None,
        grouping=grouping,
    )


asks = asks_for_records() | asks_for_views()
VALUES: list[Any] = [
    None,
    True,
    0,
    1,
    -2,
    2**53 + 1,
    0.1,
    0.2,
    1e300,
    "1",
    "01",
    "a",
    "é",
    "",
    [3, 1],
    {"x": 1},
]
"""Values that compare, add up and group in every way."""

bodies = st.fixed_dictionaries(
    {"n": st.integers(0, 3), "g": st.sampled_from("ab")},
    optional={
        "o": st.sampled_from([{"x": 1}, {"x": 1, "y": 1}, {"x": 2, "y": 1}, {"y": 2}, 5, [1]]),
        "t": st.sampled_from([[], [1], "x"]),
    },
)
writes = st.tuples(st.sampled_from(IDS), st.none() | bodies | bodies | bodies)
