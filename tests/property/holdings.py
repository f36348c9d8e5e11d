"""What the client of a subscription holds, against what the records were at its bookmark."""

from dataclasses import dataclass, field
from typing import Any

from sowline.model.bookmark import Positions, parse_bookmark
from tests.property.asks import ID_OF, Ask, Key, View
from tests.property.recorded_service import Service
from tests.unit.query_service.sessions import Json


@dataclass
class Holding:
    """What a subscriber holds, and where; `positions` is None before it holds anything that can be told."""

    ask: Ask
    positions: Positions | None = None
    held: View = field(default_factory=dict)
    partial: set[Key] = field(default_factory=set)
    """What it holds only some fields of: it came as a delta to one that never had the whole."""
    extra: set[Key] = field(default_factory=set)
    """What it may hold though it is not shown: nobody told."""
    missing: set[Key] = field(default_factory=set)
    """What it need not hold though it is shown: it was there before."""
    complete: bool = False
    """Whether it was sent everything that there is."""
    has_come_back: bool = False
    """Whether it has come back: then it is taken to have been."""


class Holder:
    """The client of one subscription: the records that it holds by its messages, and checks of them."""

    def __init__(self, service: Service, sid: str, ask: Ask) -> None:
        self.service = service
        self.sid = sid
        self.asked = ask
        """What it asked for last; it holds what it asked for before, until that is acknowledged."""
        self.holding = Holding(ask)
        self.saved: Holding | None = None
        """What it held before the step that has begun."""
        self.group: list[Json] | None = None
        self.mark: str | None = None
        self.turned_from: Holding | None = None
        """What it held when it was replaced, until the group of the new one is there."""
        self.owed: set[Key] = set()
        """What it has to be told of that it leaves."""
        self.step: list[Json] = []
        self.step_sent: float | None = None
        self.is_back = False
        self.is_dead = False
        self.replaced_at: set[float] = set()
        self.group_keys: dict[str, Key] = {}

    # what is true

    def check_holding(self, shown: View, *, keep: bool = True) -> None:
        """Check that it holds what is shown, and nothing else if it gets out-of-focus messages."""
        holding = self.holding
        for key, body in shown.items():
            if key in holding.held:
                assert self._is_right(key, body), (key, holding.held[key], body)
            else:
                assert key in holding.missing, f"lacks {key}"
        extra = set(holding.held) - set(shown)
        assert not holding.ask.oof or extra <= holding.extra, f"holds {extra}"
        if keep:
            holding.extra = extra
            holding.missing &= set(shown) - set(holding.held)
            holding.partial &= set(holding.held)

    def check_now(self) -> None:
        """Check that it holds what is shown now: all messages have arrived."""
        assert not self.owed, "not told of what leaves"
        assert not self.step
        assert self.group is None
        assert self.holding.positions is not None
        self.check_holding(self.holding.ask.view(self.service.at(self.service.now)), keep=False)

    def _is_right(self, key: Key, body: Json) -> bool:
        sent = self.holding.ask.sent
        return key in self.holding.partial or sent(self.holding.held[key]) == sent(body)

    def committed(self) -> Holding:
        """What it holds at its bookmark: of a step that has not ended nothing."""
        return self.holding if self.saved is None else self.saved

    # reading

    def placed(self, bookmark: str) -> Positions:
        """A whole bookmark."""
        positions = parse_bookmark(bookmark)
        assert set(positions) == {"orders"}
        assert set(positions["orders"]) == set(range(len(self.service.past)))
        return positions["orders"]

    def _laid_over(self, message: Json) -> Positions:
        assert self.holding.positions is not None
        ask, given = self.holding.ask, parse_bookmark(message["bookmark"])["orders"]
        assert len(given) == (len(self.service.past) if ask.is_window or ask.conflation else 1) or (
            self.turned_from is not None
        )
        return self.holding.positions | given

    def _may_not_go_back(self, positions: Positions) -> None:
        held = self.holding.positions
        assert held is None or all(positions[p] >= held[p] for p in positions), "goes back"

    def _key(self, message: Json, ask: Ask | None = None) -> Key:
        """What a message or a record is about."""
        sow = message.get("sow_key")
        if sow is None:
            return "id", message["data"]["id"]
        if sow in ID_OF:
            return "id", ID_OF[sow]
        if sow not in self.group_keys:
            grouping = self.holding.ask.grouping
            assert grouping is not None
            self.group_keys[sow] = grouping.field, message["data"][grouping.field]
        return self.group_keys[sow]


def merge(record: Json, delta: Json) -> None:
    """Merge objects field by field."""
    for name, value in delta.items():
        if isinstance(value, dict) and isinstance(record.get(name), dict):
            merge(record[name], value)
        else:
            record[name] = value


def remove(record: Json, path: str, *, strict: bool) -> None:
    """Take a field out."""
    *above, name = path.split("/")[1:]
    node: Any = record
    for step in above:
        node = node.get(step) if isinstance(node, dict) else None
    if isinstance(node, dict) and name in node:
        del node[name]
    else:
        assert not strict, f"{path} is not held"
