"""Joins of views: whatever happens, a view equals a plain recomputation at the positions that it names."""

from contextlib import ExitStack
from functools import partial
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sowline.runtime.native import native_core
from sowline_views.core import outgoing
from sowline_views.core.spilling import SpillSpace
from tests.examples import examples
from tests.property.join_steps import TOPICS, customer, order, step
from tests.property.join_world import PROCESSES, Joins
from tests.property.spill_disks import DISKS, opened_disk

VIEWS = ("joined", "labeled", "parents", "desks", "triples", "pairs", "mixed", "named")
KEYS = ("1", 1, "2", None, True)
orders = st.fixed_dictionaries(
    {
        "id": st.integers(0, 5),
        "customer": st.sampled_from(KEYS),
        "desk": st.sampled_from(["a", "b"]),
        "qty": st.integers(0, 9),
    }
)
customers = st.fixed_dictionaries(
    {"id": st.sampled_from(["1", "2", True]), "desk": st.sampled_from(["a", "b"]), "tier": st.integers(0, 1)}
)
names = st.fixed_dictionaries(
    {"id": st.sampled_from(["1", "2"]), "desk": st.sampled_from(["a", "b"]), "label": st.integers(0, 1)}
)
tiers = st.fixed_dictionaries({"tier": st.integers(0, 1), "members": st.integers(0, 2)})
steps = st.one_of(
    st.tuples(st.just("orders"), orders, st.booleans()),
    st.tuples(st.just("customers"), customers, st.booleans()),
    st.tuples(st.sampled_from(["tiers", "largest"]), tiers, st.booleans()),
    st.tuples(st.just("names"), names, st.booleans()),
    st.tuples(
        st.just("report"), st.sampled_from(["orders", "customers", "tiers", "names"]), st.integers(0, 1)
    ),
    st.tuples(st.just("take over"), st.integers(0, 1), st.integers(0, PROCESSES - 1)),
    st.tuples(st.just("take"), st.integers(0, PROCESSES - 1), st.integers(1, 5)),
    st.tuples(st.just("flush"), st.none(), st.booleans()),
    st.tuples(st.just("flush late"), st.none(), st.none()),
)


def tier(tier: int, members: int) -> tuple[str, Any, Any]:
    """Return the step that writes a tier."""
    return "tiers", {"tier": tier, "members": members}, False


TAKE = ("take", 0, 5)
SHARED_JOIN_KEY = [
    customer("1", 1),
    customer("2", 1),
    tier(0, 1),
    TAKE,
    customer("1", 0),
    TAKE,
    tier(0, 2),
    TAKE,
]
"""Two rows of an order look for the same tier. One stops, and the other one must still see its changes."""

ONE_OF_TWO_LEAVES = [customer("1", 1), customer("2", 1), TAKE, (*customer("1", 1)[:2], True), TAKE]
"""A row without a match is only made if no other record matches."""

JOINED_BY_ANOTHER_JOIN = [customer("1", 1), tier(0, 1), tier(1, 2), TAKE, tier(1, 0), TAKE]
"""A record of a topic that is joined twice changes, and only the second join has it."""


@examples(120)
@given(
    st.sampled_from(VIEWS),
    st.sampled_from(DISKS),
    st.sampled_from([0, 1000, 10_000]),
    st.lists(steps, min_size=1, max_size=8) | st.lists(steps, min_size=40, max_size=80),
    st.sampled_from([None, native_core(None)]),
)
@example("triples", "dict", 0, [("orders", order(1), False), *SHARED_JOIN_KEY], None)
@example("desks", "dict", 0, [("orders", order(1), False), *ONE_OF_TWO_LEAVES], None)
@example("pairs", "dict", 0, [("orders", order(1), False), *JOINED_BY_ANOTHER_JOIN], None)
def test_joins_equal_a_recomputation(
    view: str, disk: str, bytes_max: int, taken: list[tuple[str, Any, Any]], native: ModuleType | None
) -> None:
    """Rows that change groups or join keys, joined records that come and go, joins of joins, and late owners.

    It makes no difference whether all records are in memory, or most of them on a disk.
    """
    with pytest.MonkeyPatch.context() as patched, ExitStack() as stack:
        patched.setattr(outgoing, "STATES_MAX", 3)
        joins = Joins(TOPICS, view, lambda: SpillSpace(partial(opened_disk, disk, stack), bytes_max), native)
        for kind, given_, more in taken:
            step(joins, kind, given_, more)
        joins.settle()
