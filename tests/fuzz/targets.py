"""What is fuzzed: each target draws an input from a seed, and compares the native core to Python.

A target returns what it has counted, and raises AssertionError where the cores differ.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import orjson

from sowline import native as sharing
from sowline.changes.change import Change
from sowline.commands.command import Headers
from sowline.config.topic_definition import define_topic
from sowline.language.filter import compile_filter
from sowline.model.position import Position
from sowline.subscriptions.engine.deliver import MessageTerms
from sowline.subscriptions.engine.matching import LiveSubscriptions
from sowline.subscriptions.engine.plan import DeliveryPlan
from sowline.subscriptions.engine.subscription import Subscription
from sowline_views.core.native_groups import native_states
from sowline_views.core.states import states_of
from tests.fuzz.inputs import body, change_header, damaged, headers
from tests.property.loaded_replicas import life as replica_life
from tests.property.log_inputs import ENRICHMENTS, Sent
from tests.property.test_native_columns import PATHS, check_bodies, is_read
from tests.property.test_native_deliver import (
    CONFLATED,
    ODD_FILTERS,
    PYTHONS_FILTERS,
    TOPIC,
    USUAL_FILTERS,
    USUAL_FORMS,
    Item,
    by_plan,
    by_python,
)
from tests.property.test_native_deltas import check_delta
from tests.property.test_native_load import load_alike, read_alike
from tests.property.test_native_types import READERS, check_message, drawn_message
from tests.property.test_native_views import HEADERS as MESSAGE_HEADERS
from tests.property.test_native_views import change_of, messages_of
from tests.property.two_cores import apply_alike, native, partition_of, state_of
from tests.property.view_world import defined

BATCH = 20
BATCHES_A_LIFE = 40
INPUTS_A_SEED = 100
VARIANTS = 7
"""How many damaged texts are made of a whole one."""
LIMITS: list[dict[str, Any]] = [
    {},
    {"partitions": 2},
    {"expiration": "1s"},
    {"expiration": "enabled", "repeat_window": "50ms"},
    {"records_max": 4, "record_bytes_max": 1024},
    {"key": ["/id", "/a"]},
    {"key": "/o/a", "repeat_window": "50ms"},
    {"key": {"from": "kafka_key"}, "partitions": 2},
    {"delta": True},
    {"delta": True, "key": ["/id", "/o/a"]},
    {"documents": True},
    {"documents": True, "key": ["/id", "/a"], "delta": True},
    {"documents": True, "template": {"a": {"b": [1.5]}}, "partitions": 2},
    *({"enrichment": fields} for fields in ENRICHMENTS),
]


VIEWS: list[dict[str, Any]] = [
    {"grouping": ["/a"], "projection": ["COUNT(1) AS /n", "SUM(/b) AS /sum", "MAX(/o/a) AS /most"]},
    {"grouping": ["/a", "/o/a"], "projection": ["AVG(/a) AS /mean", "MIN(/b) AS /least", "ANY(/id) AS /any"]},
    {"grouping": ["/o/a"], "filter": "/a = 'x'", "projection": ["COUNT(/b) AS /n", "SUM(/b) AS /sum"]},
    {"grouping": ["/id"], "projection": ["COUNT_DISTINCT(/a) AS /kinds", "SUM(/b * 2) AS /twice"]},
]


def log_records(seed: int) -> Counter[str]:
    """Let both cores apply the same batches to a partition."""
    # Where the native core stops, Python applies one record, not a run: the native core sees all the others.
    sharing.RUN_MAX = 1
    chance, counts = Random(seed), Counter[str]()
    definition = define_topic(**{"name": "orders", "key": "/id", **chance.choice(LIMITS)})
    (one, disk), (other, other_disk) = partition_of(definition, native), partition_of(definition, None)
    offset, now, end = 0, 1000, 0
    for _ in range(BATCHES_A_LIFE):
        sent: list[Sent] = [(body(chance), chance.randrange(-2, 30), headers(chance)) for _ in range(BATCH)]
        if definition.documents:
            sent = [as_delta(chance, one) if chance.random() < 0.6 else one for one in sent]
        records = []
        for text, later, named in sent:
            now += later
            records.append((offset, now, chance.choice([None, b"0", b"a", b"1"]), text, named))
            offset += 1
        mine = apply_alike(one, other, records, end)
        end += len(mine.events)
        counts["records"] += len(records)
        counts["native"] += sum(isinstance(change, native.Change) for change in mine.step.changes)
    assert one.core == "native", "a panic"
    for partition in (one, other):
        partition.close()
    assert state_of(disk) == state_of(other_disk), "stores"
    return counts


def as_delta(chance: Random, sent: Sent) -> Sent:
    """Return a message as a delta of a document."""
    text, later, named = sent
    if text is not None and chance.random() < 0.7:
        text = text.replace(b"{", b"{..,", 1).replace(b'"id"', chance.choice([b'"id"', b'"x"', b'"a"']))
    more: Headers = [("sow.command", b"delta")]
    if chance.random() < 0.3:
        more.append(("sow.tags", chance.choice([b"t", b"u,t", b"t ,, t", b'"', b"\xff"])))
    return text, later, [*(named or ()), *more]


def scanner(seed: int) -> Counter[str]:
    """Scan texts: what the scanner accepts, `orjson` accepts, and it finds the same fields."""
    chance, counts = Random(seed), Counter[str]()
    for _ in range(INPUTS_A_SEED):
        whole = body(chance) or b""
        for text in (whole, *(damaged(chance, whole) for _ in range(VARIANTS))):
            found = native.scan(text)
            counts["inputs"] += 1
            counts["accepted"] += found is not None
            if found is not None:
                read = {orjson.loads(b'"%b"' % name): orjson.loads(value) for name, value in found}
                assert repr(read) == repr(orjson.loads(text)), text
    return counts


def event_reader(seed: int) -> Counter[str]:
    """Read the headers of changes, whole and damaged ones."""
    chance, counts = Random(seed), Counter[str]()
    for _ in range(INPUTS_A_SEED):
        whole = change_header(chance)
        for text in (whole, *(damaged(chance, whole) for _ in range(VARIANTS))):
            counts["inputs"] += 1
            counts["accepted"] += read_alike(text)
    return counts


def loads(seed: int) -> Counter[str]:
    """Let both cores load the same messages of a changes topic into a store."""
    return Counter(inputs=load_alike(seed))


def replicas(seed: int) -> Counter[str]:
    """Let both cores load and follow the same messages in a query service."""
    return replica_life(seed)


def columns(seed: int) -> Counter[str]:
    """Let both cores fill memo indexes from the same bodies."""
    chance, counts = Random(seed), Counter[str]()
    for _ in range(INPUTS_A_SEED):
        drawn = [body(chance) for _ in range(VARIANTS)]
        bodies = [one for one in drawn if one is None or is_read(one)]
        check_bodies(PATHS, bodies)
        counts["inputs"] += len(bodies)
    return counts


def deltas(seed: int) -> Counter[str]:
    """Let both cores read the same deltas of documents."""
    chance, counts = Random(seed), Counter[str]()
    for _ in range(INPUTS_A_SEED):
        text = (body(chance) or b"").decode("utf-8", "replace")
        if chance.random() < 0.7:
            text = text.replace("{", "{..,", 1)
        check_delta(text)
        counts["inputs"] += 1
    return counts


def messages(seed: int) -> Counter[str]:
    """Read messages of other types, whole and damaged ones."""
    chance, counts = Random(seed), Counter[str]()
    for _ in range(INPUTS_A_SEED):
        message = drawn_message(chance)
        for codec, reader, schema in READERS:
            counts["inputs"] += 1
            counts["accepted"] += check_message(codec, reader, schema, message)
    return counts


def view_groups(seed: int) -> Counter[str]:
    """Let both cores keep the groups of a view while its records come, change and go."""
    chance, counts = Random(seed), Counter[str]()
    view = defined(chance.choice(VIEWS), 1, 1).view
    assert view is not None
    mine, expected = native_states(view, 0, native), states_of(view, 0)
    held: dict[int, bytes] = {}
    for offset in range(INPUTS_A_SEED):
        text = body(chance)
        given = None if text is None or not is_read(text) else text
        if (change := change_of(chance.randrange(8), offset, given, held)) is not None:
            assert mine.change(change) == expected.change(change), change
            counts["changes"] += 1
    return counts


def view_messages(seed: int) -> Counter[str]:
    """Let both cores merge the same partial states of a view, whole and damaged ones."""
    sharing.RUN_MAX = 1
    chance, counts = Random(seed), Counter[str]()
    definition = defined(chance.choice(VIEWS), 2, 1)
    drawn = [(chance.randrange(2), chance.randrange(4), body(chance)) for _ in range(BATCH)]
    written = [
        (source, number, None if text is None or not is_read(text) else orjson.loads(text))
        for source, number, text in drawn
    ]
    whole = [message.encode() for _, message in messages_of(definition, written, chance.randrange(1, 4))]
    values = [damaged(chance, one) if chance.random() < 0.1 else one for one in whole]
    (one, disk), (other, other_disk) = partition_of(definition, native), partition_of(definition, None)
    records = [(offset, 1000, None, value, MESSAGE_HEADERS) for offset, value in enumerate(values)]
    made = apply_alike(one, other, records, 0)
    assert state_of(disk) == state_of(other_disk)
    counts["messages"] += len(records)
    counts["native"] += sum(isinstance(change, native.Change) for change in made.step.changes)
    return counts


def deliveries(seed: int) -> Counter[str]:
    """Let both cores send changes of odd records to subscriptions."""
    chance, counts = Random(seed), Counter[str]()
    topic = chance.choice([TOPIC, CONFLATED])
    plan: DeliveryPlan[Item] = DeliveryPlan(topic, native)
    live: LiveSubscriptions[Item] = LiveSubscriptions()
    for _ in range(chance.randrange(1, 8)):
        form = chance.choice(USUAL_FORMS)
        filter = compile_filter(chance.choice(USUAL_FILTERS + ODD_FILTERS + PYTHONS_FILTERS))
        item = Item(
            Subscription(filter, chance.random() < 0.5, form.delta),
            MessageTerms.of(chance.choice("cde"), chance.choice("st"), form, shares=False),
            None,
        )
        plan.add(item)
        live.add(item, item.engine)
    previous: bytes | None = None
    for offset in range(BATCHES_A_LIFE):
        batch: list[Change] = []
        for nth in range(chance.randrange(1, BATCH)):
            given = body(chance)
            if given is not None and not is_object(given):
                continue
            at = Position(0, offset, nth)
            batch.append(Change(b"1", given, previous, at, at, "publish", offset))
            previous = given
        counts["changes"] += len(batch)
        found = by_plan(plan, batch, topic)
        assert found == by_python(live, batch, topic), batch
        counts["messages"] += sum(map(len, found[0].values()))
    return counts


def is_object(given: bytes) -> bool:
    """Return whether a text is a record."""
    try:
        return isinstance(orjson.loads(given), dict)
    except orjson.JSONDecodeError:
        return False


TARGETS: Mapping[str, Callable[[int], Counter[str]]] = {
    "log-records": log_records,
    "scanner": scanner,
    "event-reader": event_reader,
    "loads": loads,
    "replicas": replicas,
    "columns": columns,
    "deltas": deltas,
    "view-groups": view_groups,
    "view-messages": view_messages,
    "messages": messages,
    "deliveries": deliveries,
}
