"""Subscribers of pages and groups that write down what they see after each step, to compare with the model."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from sowline.language.expressions.order import parse_order
from tests.integration.model import FILTERS, Body, Model
from tests.integration.positions import positions_of
from tests.integration.wire import Json, Wire, laid_over, wire

Records = dict[str, Body]


@dataclass(frozen=True)
class Page:
    """A page, and what it shows of records by what its order says."""

    filter: str
    order_by: str
    top_n: int
    skip_n: int

    @property
    def fields(self) -> Json:
        """What it is asked for with."""
        order = {"filter": self.filter, "order_by": self.order_by}
        return order | {"top_n": self.top_n, "skip_n": self.skip_n, "options": "oof"}

    def check(self, view: Records, records: Records) -> None:
        """Compare a view with the page of all records."""
        order = parse_order(self.order_by)
        keyed = sorted((order.key(body, key.encode()), key) for key, body in records.items())
        keys = [key for _, key in keyed[self.skip_n : self.skip_n + self.top_n]]
        assert view == {key: records[key] for key in keys}


@dataclass(frozen=True)
class Groups:
    """Groups, all or a page of them, and what they show of records, recomputed from all of these.

    The order of a page must tell all groups apart.
    """

    filter: str
    grouping: tuple[str, ...]
    order_by: str = ""
    top_n: int | None = None
    skip_n: int | None = None

    FIELDS = (
        "COUNT(1) AS /n, SUM(/qty) AS /total, AVG(/qty) AS /mean, MIN(/qty) AS /least, MAX(/qty) AS /most,"
        " COUNT_DISTINCT(/id) AS /ids, MAX(/qty) - MIN(/qty) AS /spread"
    )

    @property
    def fields(self) -> Json:
        """What they are asked for with."""
        paths = ",".join(f"/{name.replace('.', '/')}" for name in self.grouping)
        options = f"oof,grouping=[{paths}],projection=[{paths},{self.FIELDS}]"
        page = (
            {"order_by": self.order_by, "top_n": self.top_n, "skip_n": self.skip_n} if self.order_by else {}
        )
        return {"filter": self.filter, "options": options} | page

    def check(self, view: Records, records: Records) -> None:
        """Compare a view with the groups of all records."""
        grouped: dict[tuple[Any, ...], list[Body]] = {}
        for body in records.values():
            grouped.setdefault(tuple(_at(body, name) for name in self.grouping), []).append(body)
        results = [_result(self.grouping, values, bodies) for values, bodies in grouped.items()]
        order = parse_order(
            self.order_by or ", ".join(f"/{name.replace('.', '/')}" for name in self.grouping)
        )
        results.sort(key=lambda result: order.key(result, b""))
        skip = self.skip_n or 0
        end = None if self.top_n is None else skip + self.top_n
        assert sorted(view.values(), key=lambda result: order.key(result, b"")) == results[skip:end]


def _at(body: Body, name: str) -> Any:
    for step in name.split("."):
        body = body.get(step, {}) if isinstance(body, dict) else {}
    return None if body == {} else body


def _result(grouping: Sequence[str], values: Sequence[Any], bodies: list[Body]) -> Body:
    result: Body = {}
    for name, value in zip(grouping, values, strict=True):
        above, _, last = name.rpartition(".")
        (result.setdefault(above, {}) if above else result)[last] = value
    quantities = [body["qty"] for body in bodies if "qty" in body]
    least: Any = min(quantities, default=None)
    most: Any = max(quantities, default=None)
    return result | {
        "n": len(bodies),
        "total": sum(quantities) if quantities else None,
        "mean": sum(quantities) / len(quantities) if quantities else None,
        "least": least,
        "most": most,
        "ids": len({body["id"] for body in bodies}),
        "spread": most - least if quantities else None,
    }


@dataclass
class Watcher:
    """One subscriber. `looks` are its views after each step, with the bookmark of that step."""

    url: str
    topic: str
    asked: Page | Groups
    view: Records = field(default_factory=dict)
    looks: list[tuple[str, Records]] = field(default_factory=list)
    groups: int = 0
    """How often it was sent the whole."""
    returns: int = 0
    """How often it came back with a bookmark."""

    def __post_init__(self) -> None:
        self._stack = ExitStack()
        self._wire: Wire | None = None
        self._step: list[Json] = []
        self._bookmark = ""

    def come(self, receive_bytes: int | None = None) -> "Watcher":
        """Connect, with the bookmark of the last visit if there is one; with `receive_bytes`, be a slow reader."""
        self._wire = self._stack.enter_context(wire(self.url, receive_bytes))
        fields = self.asked.fields | ({"bookmark": self._bookmark} if self._bookmark else {})
        self._wire.send("sow_and_subscribe", topic=self.topic, sub_id="s", **fields)
        self.returns += bool(self._bookmark)
        return self

    def leave(self) -> None:
        """Disconnect, whatever has not been read yet."""
        self._stack.close()
        self._step = []

    def read(self) -> None:
        """Take what has come."""
        assert self._wire is not None
        for message in self._wire.heartbeat():
            assert message["command"] != "ack", message
            self._step.append(message)
            if message["command"] in ("group_end", "publish", "oof") and not message.get("more"):
                self._take(self._step)
                self._step = []

    def _take(self, step: list[Json]) -> None:
        """Take one step: a whole group, or all messages that one change leads to."""
        if step[0]["command"] == "group_begin":
            self.groups += 1
            records = [record for m in step[1:-1] for record in m["records"]]
            self.view = {record["sow_key"]: record["data"] for record in records}
            assert len(self.view) == step[-1]["records"]
        for message in step if step[0]["command"] != "group_begin" else ():
            if message["command"] == "publish":
                self.view[message["sow_key"]] = message["data"]
            else:
                del self.view[message["sow_key"]]
        positions = [{"bookmark": self._bookmark}] if self._bookmark else []
        self._bookmark = laid_over([*positions, step[-1]])
        self.looks.append((self._bookmark, dict(self.view)))

    def fresh(self) -> Records:
        """Return what a query of the same page or groups shows now."""
        fields = {name: text for name, text in self.asked.fields.items() if name != "options"}
        options = self.asked.fields["options"].removeprefix("oof").removeprefix(",")
        with wire(self.url) as other:
            other.send("sow", topic=self.topic, options=options, batch_size=1000, **fields)
            records = [record for message in other.group()[1:-1] for record in message["records"]]
        return {record["sow_key"]: record["data"] for record in records}

    def is_up_to_date(self) -> bool:
        """Read, and tell whether the view is what a query shows now."""
        self.read()
        return self.view == self.fresh()

    def check(self, model: Model) -> None:
        """Compare every view with the model at the bookmark of that view."""
        at = _timeline(model)
        for bookmark, view in self.looks:
            records = at(bookmark)
            matching = {key: body for key, body in records.items() if FILTERS[self.asked.filter](body)}
            try:
                self.asked.check(view, matching)
            except AssertionError as error:
                raise AssertionError(f"{self.asked} at {bookmark}: {error}") from None


def _timeline(model: Model) -> Callable[[str], Records]:
    """Return what gives the records at a bookmark; each bookmark is behind those asked for before."""
    left: dict[int, Iterator[Any]] = {}
    ahead: dict[int, Any] = {}
    records: Records = {}
    for partition in range(model.definition.partitions):
        left[partition] = iter([step for step in model.steps if step.partition == partition])
        ahead[partition] = next(left[partition], None)

    def at(bookmark: str) -> Records:
        for partition, position in positions_of(bookmark).items():
            while (step := ahead[partition]) is not None and step.position <= position:
                if step.now is None:
                    records.pop(step.sow_key, None)
                else:
                    records[step.sow_key] = step.now
                ahead[partition] = next(left[partition], None)
        return records

    return at


def visit(watcher: Watcher, dice: random.Random) -> None:
    """Let a watcher read, and now and then leave and come back."""
    watcher.read()
    if dice.random() < 0.3:
        watcher.leave()
        watcher.come()
