"""The cost of a record to a materializer in each kind of topic, as a ratio to the plainest kind in the same run.

All kinds do the job of `bench.merging`; only the topic's definition and the form of the commands differ.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import orjson

from bench.broker import broker
from bench.materialize import materializer
from bench.merging import (
    KEYED,
    PARTITIONS,
    Body,
    Figure,
    Job,
    Load,
    Sent,
    line,
    measure,
    median,
    new_load,
    sent,
)
from bench.table import table
from sowline.commands.command import command_headers
from sowline.model.key import partition_of

PLAIN = "one key field"
DELTA = command_headers("delta")
FIX_TAGS = {
    "order": 11,
    "customer": 1,
    "ticker": 55,
    "side": 54,
    "status": 39,
    "qty": 38,
    "price": 44,
    "note": 58,
}
OTHER_KEYS = {partition_of(key, PARTITIONS): key for key in map(str, range(10))}
"""By partition, a Kafka key that leads to it."""


def _two_fields(body: Body, is_delta: bool) -> Sent:
    key = orjson.dumps([str(body["order"]), "XLON"]).decode()
    return sent(body | {"venue": "XLON"}, is_delta)._replace(key=key)


def _nested(body: Body, is_delta: bool) -> Sent:
    rest = {name: value for name, value in body.items() if name != "order"}
    return sent(body, is_delta)._replace(value=orjson.dumps({"id": {"order": body["order"]}, **rest}))


def _document(body: Body, is_delta: bool) -> Sent:
    text = orjson.dumps(body)
    return Sent(str(body["order"]), b"{..," + text[1:] if is_delta else text, DELTA)


def _fix(body: Body, is_delta: bool) -> Sent:
    text = "".join(f"{FIX_TAGS[name]}={value}\x01" for name, value in body.items())
    return sent(body, is_delta)._replace(value=text.encode())


def _nvfix(body: Body, is_delta: bool) -> Sent:
    text = "".join(f"{name}={value}\x01" for name, value in body.items())
    return sent(body, is_delta)._replace(value=text.encode())


def _message_pack(body: Body, is_delta: bool) -> Sent:
    return sent(body, is_delta)._replace(value=msgspec.msgpack.encode(body))


def _elsewhere(body: Body, is_delta: bool) -> Sent:
    owner = partition_of(str(body["order"]), PARTITIONS)
    return sent(body, is_delta)._replace(key=OTHER_KEYS[(owner + 1) % PARTITIONS])


class _Deletes:
    """Every other delta of a record deletes it instead."""

    def __init__(self) -> None:
        self._live: set[str] = set()
        self._deltas = 0

    def __call__(self, body: Body, is_delta: bool) -> Sent:
        command = sent(body, is_delta)
        self._deltas += is_delta
        if is_delta and self._deltas % 2 and command.key in self._live:
            self._live.remove(command.key)
            return Sent(command.key, None, [])
        self._live.add(command.key)
        return command


def jobs() -> dict[str, Job]:
    """Return all kinds, by name; those that remember their records begin again."""
    return {
        PLAIN: Job(),
        "two key fields": Job({"key": ["/order", "/venue"]}, _two_fields),
        "a nested key field": Job({"key": ["/id/order"]}, _nested),
        "keys that publishers supply": Job({"key": {"from": "kafka_key"}}),
        "a delete for every fourth record": Job(KEYED, _Deletes()),
        "`delta: true`": Job(KEYED | {"delta": True}),
        "enrichment: `/qty * /price AS /value`": Job(
            KEYED | {"enrichment": ["/qty * /price AS /value HINT OPTIONAL"]}
        ),
        "documents: literals and deltas of maps": Job(KEYED | {"documents": True}, _document),
        "FIX": Job({"key": ["/11"], "message_type": "fix"}, _fix),
        "NVFIX": Job(KEYED | {"message_type": "nvfix"}, _nvfix),
        "MessagePack": Job(KEYED | {"message_type": "msgpack"}, _message_pack),
        "records in a partition other than their key's": Job(KEYED, _elsewhere),
    }


def run(records: int, runs: int) -> str:
    """Measure all kinds in turn, and return the table of their medians, the slowest first."""
    figures: dict[str, list[Figure]] = {name: [] for name in jobs()}
    with broker() as bootstrap:
        for _ in range(runs):
            for name, job in jobs().items():
                with _loaded(bootstrap, records, job) as load, materializer(load) as entrant:
                    figures[name].append(measure(load, entrant))
                print(line(name, figures[name][-1]), flush=True)
    return report(records, {name: median(measured) for name, measured in figures.items()})


@contextmanager
def _loaded(bootstrap: str, records: int, job: Job) -> Iterator[Load]:
    """Lend a log of a kind; it is deleted afterwards."""
    load = new_load(bootstrap, records, job=job)
    try:
        yield load
    finally:
        load.cluster.delete_topics([load.definition.log, load.definition.changes])


def report(records: int, figures: dict[str, Figure]) -> str:
    """Return a table of figures, by name, next to those of the plainest kind."""
    plain = figures[PLAIN].cpu_us
    slowest_first = sorted(figures.items(), key=lambda item: -item[1].cpu_us)
    rows = [
        [name, f"{one.rate:,.0f}", f"{one.cpu_us:.1f}", f"{one.cpu_us / plain:.2f}"]
        for name, one in slowest_first
    ]
    head = ["kind of topic", "records/s", "µs of CPU per record", "CPU compared to one key field"]
    return f"{records:,} records in {PARTITIONS} partitions.\n\n{table(head, rows)}"
