"""One record to 250 of ten thousand clients: Sowline, Centrifugo, and a native loop that only sends.

The load is that of `bench.keyed` with 40 keys: the same publisher, broker, records, rates and clients, in turn. A
server starts again for each turn, in which the rate is raised until it is not sustained.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from bench.broker import broker
from bench.keyed import PARTITIONS, SHARED, as_server, services
from bench.peers import centrifugo, send_loop
from bench.rates import CLIENTS, HEAD, RECORD_BYTES, Held, Server, raised
from bench.table import medians_of, table

OURS = "Sowline"


def run(records: int, runs: int) -> str:
    """Measure all in turn; return the table of medians."""
    del records
    found: dict[tuple[str, int], list[Held]] = defaultdict(list)
    with broker() as kafka:
        entered: dict[str, Callable[[], AbstractContextManager[Server]]] = {
            OURS: lambda: _ours(kafka),
            centrifugo.NAME: lambda: centrifugo.centrifugo(kafka, PARTITIONS),
            send_loop.NAME: lambda: send_loop.send_loop(SHARED.keys),
        }
        for _ in range(runs):
            for name, enter in entered.items():
                print(name, flush=True)
                with enter() as server:
                    for held in raised(server, SHARED):
                        found[name, held.rate].append(held)
    rows = []
    for (name, _), some in found.items():
        held = Held(*map(statistics.median, zip(*some, strict=True)))
        rows.append((name, *held.cells, f"{held.cpu_us:.1f}"))
    caption = (
        f"{CLIENTS:,} clients of {SHARED.keys} keys, {RECORD_BYTES:,} bytes a record, {medians_of(runs)}."
    )
    return f"{caption}\n\n{table(('', *HEAD, 'µs of CPU per message'), rows)}"


@contextmanager
def _ours(kafka: str) -> Iterator[Server]:
    """Run the materializer and the query service; the CPU of both counts."""
    with services(kafka) as both:
        yield as_server(kafka, both.query_service, *both)
