"""What is written to a topic, and what is asked of a query service and of a gateway over shards."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from tests.property.asks import (
    FILTERS,
    GROUPINGS,
    ORDERS,
    SELECTS,
    VALUES,
    Grouping,
    asks_for_records,
    asks_for_views,
    bodies,
)
from tests.property.document_model import CONDITIONS
from tests.unit.query_service.sessions import Json

IDS = range(10)

# what is written

values = st.fixed_dictionaries({}, optional={"v": st.sampled_from(VALUES)})
records = st.builds(lambda body, more: body | more, bodies, values)
deltas = st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(0, 3),
        "g": st.sampled_from("ab"),
        "v": st.sampled_from(VALUES),
        "o": st.sampled_from([{"x": 1}, {"y": 2}, {"x": None}]),
    },
)
DOCUMENT_DELTAS = (
    '{..,"n":1}',
    '{..,"n":3,"g":"b"}',
    '{..,"v":0.1}',
    '{..,"o":{..,"x":2}}',
    '{..,"o":~}?',
    '{..,"t":(..,"x")}',
    'if {..,"n":2} then {..,"g":"a"} else {..,"n":2} end',
    "~",
    "..",
    "[1]",
)
ids = st.sampled_from(IDS)
writes = (
    st.tuples(st.just("publish"), ids, records)
    | st.tuples(st.just("publish"), ids, records)
    | st.tuples(st.just("delta_publish"), ids, deltas)
    | st.tuples(st.just("change"), ids, st.sampled_from(DOCUMENT_DELTAS))
    | st.tuples(st.just("tombstone"), ids, st.none())
    | st.tuples(st.just("delete_keys"), ids, st.lists(ids, max_size=3))
    | st.tuples(
        st.just("delete_filter"), ids, st.sampled_from(["/n = 1", "/g = 'b' AND /n > 1", "/id > 7", "1=1"])
    )
)
"""A command, the id of its record, and what goes with it."""

# what is asked

MORE_FILTERS = [
    *FILTERS,
    "/v > 0",
    "/v IS NULL",
    "/nosuch = 1",
    "/ox = 1",
    "/n IN (0, 3)",
    "NOT /g = 'a'",
    "/id >= 3 AND /id < 9",
    "/v LIKE 'a'",
    "/o/y + /n > 2",
    "/t = 1",
]
MORE_ORDERS = [*ORDERS, "/v", "/v DESC, /n", "/v TEXT", "/o/x DESC, /g", "/g", "/nosuch"]


def _unmodeled(*given: Any) -> Any:
    raise AssertionError("no model knows these groups")


def _grouping(field: str, projection: str, order: str, *, tells_latest: bool = False) -> Grouping:
    return Grouping(field, projection, _unmodeled, order, _unmodeled, tells_latest)


MORE_GROUPINGS = [
    *GROUPINGS,
    _grouping("g", "/g,SUM(/v) AS /s,AVG(/n) AS /a,MIN(/v) AS /low,MAX(/v) AS /high", "/a DESC,/s"),
    _grouping("v", "/v,COUNT(1) AS /c,AVG(/n) AS /a,STDDEV_SAMP(/n) AS /d", "/c DESC,/d"),
    _grouping("o/x", "/o/x,COUNT_DISTINCT(/v) AS /d,COUNT(/t) AS /t", "/d"),
    _grouping("nosuch", "COUNT(1) AS /c,SUM(/n) / COUNT(1) AS /mean,MAX(/id) - MIN(/id) AS /spread", "/c"),
    _grouping("g,/n", "/n,/g,/v AS /latest,COUNT(1) AS /c", "/c,/latest", tells_latest=True),
]
views = asks_for_views(MORE_FILTERS, MORE_ORDERS, MORE_GROUPINGS)
# Only without conflation every single message is compared.
asks = (
    asks_for_records(MORE_FILTERS, MORE_ORDERS) | views | views.map(lambda ask: replace(ask, conflation=""))
)

whose = st.sampled_from(["everything", "everything", "some records", "some fields"])


@st.composite
def queries(draw: st.DrawFn) -> Json:
    """The fields of a query."""
    grouping = draw(st.none() | st.sampled_from(MORE_GROUPINGS))
    options = draw(st.lists(st.sampled_from(["no_sowkey", "timestamp"]), max_size=2, unique=True))
    options += draw(st.sampled_from([[]] * 7 + [["intrinsics"]]))
    top_n = draw(st.sampled_from([None, 0, 1, 2, 3, 5, 100]))
    fields: Json = {
        "filter": draw(st.sampled_from(MORE_FILTERS)),
        "top_n": top_n,
        "skip_n": None if top_n is None else draw(st.sampled_from([None, 0, 1, 2, 4])),
        "batch_size": draw(st.sampled_from([1, 3, 1000])),
        "topic": draw(st.sampled_from(["orders", "orders", "^ord.*"])),
        "condition": draw(st.sampled_from([""] * 9 + list(CONDITIONS))),
    }
    if grouping is None:
        fields["order_by"] = draw(st.sampled_from(MORE_ORDERS))
        select = draw(st.sampled_from(list(SELECTS)))
        options += [f"select={select}"] if select else []
        fields["sow_keys"] = draw(st.sampled_from([(), (), (0, 1, 3, 9)]))
    else:
        fields["order_by"] = draw(st.sampled_from(["", grouping.order]))
        options += [f"grouping=[/{grouping.field}]", f"projection=[{grouping.projection}]"]
        fields["topic"] = draw(st.sampled_from(["orders", "orders", "orders", "^ord.*"]))
    fields["options"] = ",".join(options)
    return {name: value for name, value in fields.items() if value not in ("", None, ())}


BAD: list[Json] = [
    {"filter": "/n >"},
    {"options": "nosuch"},
    {"options": "select=[/n]"},
    {"options": "grouping=[/g]"},
    {"options": "grouping=[/g],projection=[/x"},
    {"command": "sow", "options": "grouping=[/g],projection=[SUM(/n)]"},
    {"command": "sow_and_subscribe", "options": "grouping=[/g],projection=[SUM(/n)]"},
    {"topic": "nosuch"},
    {"topic": "^nosuch"},
    {"order_by": "n"},
    {"order_by": "/t"},
    {"top_n": -1},
    {"skip_n": 1},
    {"batch_size": 0},
    {"bookmark": "orders:0@5..", "top_n": 1},
    {"bookmark": "orders:9@5"},
    {"bookmark": "other:0@5"},
    {"bookmark": "20200101T000000Z"},
    {"at_least": "other:0@5"},
    {"at_least": "orders:9@5"},
    {"max_staleness": "x"},
    {"sow_keys": ["x", "1"], "filter": "/g ="},
    {"condition": "{..,"},
    {"up_to": "now", "skip_n": 0, "top_n": 2},
    {"up_to": "epoch"},
    {"ack_type": "persisted"},
    {"options": "conflation=1s,conflation_key=[/t],oof"},
    {"options": "rate=5"},
    {"options": "partial"},
    {"options": "replace", "bookmark": "epoch"},
    {"command": "delta_subscribe", "skip_n": 0, "top_n": 1},
    {"command": "subscribe", "options": "grouping=[/g],projection=[/g]"},
    {"command": "sow_and_subscribe", "sow_keys": ["1"], "skip_n": 0, "top_n": 3},
    {"filter": "UNIX_TIMESTAMP() > 5", "options": "oof"},
]
"""Commands that are refused, as a query or as a subscription."""
