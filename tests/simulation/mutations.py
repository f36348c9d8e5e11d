"""Small mistakes, as somebody might make them in the services: a simulation is worth what it finds of these."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.simulation.gateway_mutations import GATEWAY_MISTAKES
from tests.simulation.mistake import Mistake
from tests.simulation.owner_mutations import OWNER_MISTAKES
from tests.simulation.reader_mutations import READER_MISTAKES
from tests.simulation.schema_mutations import SCHEMA_MISTAKES
from tests.simulation.template_mutations import TEMPLATE_MISTAKES

MISTAKES: dict[str, Mistake] = (
    OWNER_MISTAKES | READER_MISTAKES | GATEWAY_MISTAKES | SCHEMA_MISTAKES | TEMPLATE_MISTAKES
)
"""Each mistake, by what it is."""

FOUND_BY: dict[str, int] = {
    "events before forwards": 14,
    "repeat taken": 19,
    "live one change late": 27,
    "guard not checked": 54,
    "due time not checked": 54,
    "last loaded": 43,
    "resumed from the start": 1,
    "cut short not seen": 4,
    "replica not waited for": 9,
    "reset goes on from before": 14,
    "message that did not fit taken for sent": 6,
    "fenced not seen": 496,
    "long load not read on": 1,
    "stale owner tail not seen": 18,
    "written between ours not seen": 27,
    "fanout loads during a refill": 49,
    "fanout commits before it writes": 52,
    "fanout goes on in another topic": 68,
    "snapshot of another topic": 10,
    "damage not seen": 10,
    "gap behind a snapshot taken": 33,
    "other shard not seen": 1,
    "floor ignored": 20,
    "step lost at failover": 2,
    "step twice at failover": 2,
    "view comes back before its bookmark": 13,
    "schema entries not read back": 35,
    "delta merged into the old form": 2,
    "what waited for the snapshot dropped": 6,
    "stream goes on from now": 6,
    "what the snapshot has sent again": 4,
    "stream joined before it is level": 3,
    "snapshot begins at its end": 3,
    "template recorded with the first portion": 56,
    "template without the event that ends it": 38,
    "hidden fields lost": 38,
    "reading the same left out": 52,
    "template of a killed owner begins again": 4,
}
"""The seed that found a mistake that few of them find: it is tried first. Once the services differ, another may:
`python -m tests.simulation --mistakes --seeds 500` finds it.
"""


_STALE = frozenset({"stale", "stall", "crash"})
FAULTS_OF: dict[str, frozenset[str]] = {
    "commit before emit": frozenset({"crash"}),
    "origin of any log counts": frozenset({"foreign origins"}),
    "stale owner writes not seen": _STALE,
    "stale owner tail not seen": _STALE,
    "written between ours not seen": _STALE,
    "repeat taken": _STALE,
    "last loaded": _STALE | {"service crash"},
    "repeat window ignored": frozenset({"idle"}),
    "live one change late": frozenset({"vanish", "restart"}),
    "reset goes on from before": frozenset({"vanish", "changes loss", "service crash", "crash", "disk loss"}),
    "resumed from the start": frozenset({"disk loss", "crash"}),
    "cut short not seen": frozenset({"disk loss", "crash"}),
    "loaded without a word": frozenset({"changes loss", "service crash"}),
    "loaded during a rewrite": frozenset({"changes loss", "service crash", "disk loss"}),
    "fanout loads during a refill": frozenset({"changes loss", "service crash"}),
    "fanout goes on in another topic": frozenset({"changes loss", "service crash"}),
    "fanout commits before it writes": frozenset({"service crash"}),
    "account not written again": _STALE,
    "deleted document not loaded": frozenset({"disk loss", "crash"}),
    "idle owner does not look": _STALE,
    "topics not known by their ids": frozenset({"changes loss", "service crash"}),
    "fenced not seen": _STALE,
    "snapshot of another topic": frozenset({"changes loss", "service crash"}),
    "snapshot begins at its end": frozenset({"service crash"}),
    "gap behind a snapshot taken": frozenset({"service crash", "compaction", "idle"}),
    "full disk taken for written": frozenset({"full disk"}),
    "unforeseen exception ends the worker": frozenset({"unforeseen"}),
    "failed record left out": frozenset({"unforeseen"}),
    "stopped partition continues": frozenset({"unforeseen"}),
    "template of a killed owner begins again": frozenset({"disk loss", "crash"}),
    "long load not read on": frozenset({"compaction", "idle", "service crash"}),
    "other shard not seen": frozenset({"reshard", "late announcements"}),
    "floor ignored": frozenset({"lag", "cut connections", "freeze"}),
    "view comes back before its bookmark": frozenset({"lag", "gateway crash", "vanish", "restart"}),
}
"""What has to go wrong for a mistake to matter; of the others, whatever a seed brings."""


@contextmanager
def mistaken(name: str) -> Iterator[None]:
    """Let the services make a mistake."""
    with ExitStack() as stack:
        for each in MISTAKES[name]():
            stack.enter_context(each)
        yield
