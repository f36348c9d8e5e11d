"""What queries, pages and groups are to show, from the records of the model; written from the contract."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial
from random import Random
from typing import Any, NamedTuple

from sowline.model.bookmark import Positions
from tests.property.model import FILTERS, Body, Effect
from tests.simulation.truth import Truth

Records = dict[bytes, Body]
Name = bytes | str | None
"""How a view knows what it shows: a record by its SOW key, a group by the value that it is grouped by."""

Shown = list[tuple[Name, Body]]

GROUPS = "grouping=[/r],projection=[/r,COUNT(1) AS /n,SUM(/q) AS /sum,AVG(/q) AS /mean,MAX(/q) AS /most]"


class Shape(NamedTuple):
    """What is asked for of the records that match: the fields of the request, and what they mean."""

    order_by: str = ""
    top_n: int | None = None
    skip_n: int | None = None
    is_grouped: bool = False

    @property
    def options(self) -> str:
        """The options of the request."""
        return GROUPS if self.is_grouped else ""

    @property
    def fields(self) -> dict[str, Any]:
        """The other fields of the request."""
        given = {"order_by": self.order_by, "top_n": self.top_n, "skip_n": self.skip_n}
        return {name: value for name, value in given.items() if value not in ("", None)}

    def of(self, records: Mapping[bytes, Body]) -> Shown:
        """Return what is shown of the records that match, in order."""
        shown: Shown = _groups(records) if self.is_grouped else sorted(records.items())
        for term in reversed([term for term in self.order_by.split(", ") if term]):
            field, _, direction = term.removeprefix("/").partition(" ")
            shown.sort(key=partial(_rank_in, field), reverse=direction == "DESC")
        skip = self.skip_n or 0
        return shown[skip : None if self.top_n is None else skip + self.top_n]

    def name(self, sow_key: bytes, body: Body) -> Name:
        """Return how the view knows a record or a group."""
        return body["r"] if self.is_grouped else sow_key

    def is_touched(self, name: Name, filter: str, effects: list[Effect], truth: Truth) -> bool:
        """Tell whether one of these effects is about a record or a group that is shown."""
        matches = FILTERS[filter]
        for effect in effects:
            if not self.is_grouped and truth.key(effect.key) == name:
                return True
            bodies = [body for body in (effect.before, effect.now) if body is not None and matches(body)]
            if self.is_grouped and name in [body.get("r") for body in bodies]:
                return True
        return False


def _rank_in(field: str, shown: tuple[Name, Body]) -> tuple[int, Any]:
    """Return where a record or a group stands by one of its fields."""
    value = shown[1].get(field)
    if value is None or value == "":
        return 0, 0
    return (2, value) if isinstance(value, str) else (1, value)


def _groups(records: Mapping[bytes, Body]) -> Shown:
    groups: dict[str | None, list[Body]] = {}
    for body in records.values():
        groups.setdefault(body.get("r"), []).append(body)
    return [(value, _group(value, members)) for value, members in groups.items()]


def _group(value: str | None, members: list[Body]) -> Body:
    values = [body["q"] for body in members if body.get("q") is not None]
    mean = None if not values else float(sum(map(Fraction, values)) / len(values))
    most = max(values, default=None)
    return {"r": value, "n": len(members), "sum": sum(values) if values else None, "mean": mean, "most": most}


def matching(truth: Truth, positions: Positions, is_wanted: Callable[..., bool]) -> Records | None:
    """Return the records that are wanted, at these positions; None where there is none of a position."""
    found: Records = {}
    for number, position in positions.items():
        if (state := truth.state_at(number, position)) is None:
            return None
        found |= {key: body for key, (body, of) in state.items() if is_wanted(body, of)}
    return found


PLAIN = Shape()
ORDERS = ("/q", "/q DESC", "/r, /q DESC", "/r DESC, /q")


def page_shape(chance: Random) -> Shape:
    """Return a page of records, or of groups."""
    if chance.random() < 0.25:
        return Shape("/n DESC, /r", chance.choice((1, 2)), chance.choice((0, 1)), is_grouped=True)
    return Shape(chance.choice(ORDERS), chance.choice((1, 2, 3, 5)), chance.choice((0, 0, 1, 2)))


def view_shape(chance: Random) -> Shape:
    """Return a page, or all groups."""
    return Shape(is_grouped=True) if chance.random() < 0.4 else page_shape(chance)


def query_shape(chance: Random) -> Shape:
    """Return what a query may ask for."""
    kind = chance.random()
    if kind < 0.3:
        return PLAIN
    return Shape("/r", chance.choice((1, 2, 5)), is_grouped=True) if kind < 0.5 else view_shape(chance)
