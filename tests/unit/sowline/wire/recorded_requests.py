"""Requests of every kind, good and bad, from a fixed seed.

`tests.unit.sowline.wire.answered_requests` answers them.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SEED = 43
COUNT = 2000
Json = dict[str, Any]

APIS = {
    "service": 34,
    "gateway": 24,
    "of a gateway": 8,
    "reader": 4,
    "stranger": 2,
    "http": 12,
    "gateway http": 8,
    "stream": 8,
}
"""Who is asked, by whom and how, each with its share of the requests."""

READS = ("sow", "explain", "subscribe", "sow_and_subscribe", "delta_subscribe", "sow_and_delta_subscribe")
SUBSCRIBES = READS[2:]
WRITES = ("publish", "delta_publish", "delta", "sow_delete")
OTHERS = ("timeline", "unsubscribe", "pause", "resume", "heartbeat", "logon", "flush")
OF_GATEWAYS = ("watch_outcomes", "outcome", "fetch")
COMMANDS = (*READS * 3, *WRITES * 2, *OTHERS, *OF_GATEWAYS)

LONG = "/a = 1 OR " * 200 + "/a = 2"
FOUND = "orders:0@1,1@2"

GOOD: dict[str, Sequence[Any]] = {
    "topic": ("orders", "orders", "orders", "prices", "docs", "^(orders|prices)$", "plain"),
    "filter": ("/a = 1", "/a > 0 AND /s LIKE 'x'", "", "SOW_KEY() = '1'", LONG),
    "condition": ("", 'intrinsic("~version", ge(0))', '{..,"a":1}'),
    "sub_id": ("s", "t", "all", "s,t"),
    "query_id": ("q", "1"),
    "batch_size": (1, 2, 10_000),
    "bookmark": (
        FOUND,
        "epoch",
        "now",
        "0",
        "0|1|",
        "20200101T000000Z",
        ["epoch", FOUND],
        [FOUND],
        json.dumps([FOUND, "orders:0@0"]),
        "[epoch..now]",
        f"(orders:0@0,1@0..{FOUND}]",
        f"[{FOUND}..20200101T000000.5Z)",
        "orders:0@0",
    ),
    "up_to": ("now", FOUND, "20200101T000000Z"),
    "at_least": ("orders:0@0", FOUND),
    "max_staleness": ("500ms", "1h"),
    "ack_type": ("processed", "received,processed,completed", "received, completed,stats", "persisted", ""),
    "order_by": ("/a", "/a DESC", "/s TEXT DESC, /a ASC", "/id desc"),
    "top_n": (0, 1, 2, 600),
    "skip_n": (0, 1, 550),
    "sow_keys": (["1", "2"], "1, 2", '["1"]', [], ""),
    "data": ({"id": 1, "a": 2}, {"id": "9"}, {"a": 1}, '{..,"a":1}', [1]),
    "expiration": (0, 1.5, 60),
    "correlation_id": ("c",),
    "key": ("1", "other"),
    "sow_key": ("1",),
    "tags": (["x", "y"], "x,y", ""),
    "change_id": ("",),
    "limit": (1, 1000),
    "reversed": (True, False),
    "token": ("abc",),
    "traceparent": ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "x"),
    "merges": (True,),
    "relays": (True,),
    "shares": (True,),
    "user": ("ada",),
    "sample_n": (2,),
    "replaces": (
        {"command": "sow", "topic": "orders", "filter": "/a > 0", "bookmark": FOUND},
        {"command": "sow", "topic": "orders", "bookmark": FOUND, "options": "oof"},
    ),
}
"""Values of fields that some command takes."""

BAD: dict[str, Sequence[Any]] = {
    "topic": ("", "none", "^none$", "^(", 5),
    "filter": ("/a =", None, "x" * 40_000, 7),
    "condition": ("{", 5),
    "sub_id": ("", "u", 3),
    "query_id": (3,),
    "batch_size": (0, 10_001, -1, 1.5, "5"),
    "bookmark": (
        "orders",
        "[a..b]",
        "orders:9@1",
        "prices:0@1",
        [],
        [5],
        5,
        "orders:0@7/9",
        "x" * 70_000,
        "[now",
    ),
    "up_to": ("epoch", "x", "orders:0@1", 5),
    "at_least": ("x", "orders:0@999", "prices:0@0", "orders:7@1", 5),
    "max_staleness": ("x", "1ms", "", 5),
    "ack_type": ("all", "stats", "persisted,stats", "x" * 1001, ["processed"]),
    "order_by": ("/a DOWN", "a", ",", "/a," * 20, 5),
    "top_n": (-1, "5", 20_000, 1.5),
    "skip_n": (-1, "x", 9_999),
    "sow_keys": ([1], {"1": 2}, None, "[1]"),
    "data": (None, "", 5),
    "expiration": (-1, "x", 1e300),
    "correlation_id": (5,),
    "key": ("", 5, "x" * 9000),
    "sow_key": ("", 5),
    "tags": ([5], 5, "x" * 5000),
    "change_id": ("x", 5),
    "limit": (0, 1001, "x"),
    "reversed": ("no",),
    "token": (5,),
    "traceparent": (5,),
    "merges": (1,),
    "relays": ("x",),
    "shares": (None,),
    "user": (5,),
    "sample_n": (-1, "x"),
    "replaces": (5, {"command": "sow"}, {"command": "sow", "topic": "orders", "options": "x"}),
    "color": ("red",),
}
"""Values that are refused in some command."""

GOOD_OPTIONS = (
    "oof",
    "no_empties",
    "no_sowkey",
    "no_redundant",
    "send_keys",
    "timestamp",
    "intrinsics",
    "replace",
    "pause",
    "current",
    "partial",
    "reset",
    "bookmark_not_found=now",
    "bookmark_not_found=epoch",
    "bookmark_not_found=fail",
    "rate=100",
    "rate=2.5MB",
    "rate=2X",
    "conflation=250ms",
    "conflation=auto",
    "conflation=none",
    "conflation=1h",
    "conflation_key=[/s]",
    "format=native",
    "format=json",
    "select=[-/,+/id,+/a]",
    "select=[-/s]",
    "grouping=[/s],projection=[/s,SUM(/a) AS /t]",
    "grouping=[/s,/a],projection=[/s,COUNT(*) AS /n,LATEST(/id) AS /l]",
    "projection=[COUNT(*) AS /n],grouping=[/s]",
)
BAD_OPTIONS = (
    "offo",
    "rate=0",
    "rate=x",
    "conflation=2d",
    "conflation=x",
    "select=[x",
    "select=x",
    "grouping=[/s]",
    "projection=[]",
    "grouping=[],projection=[/a]",
    "grouping=[/s],projection=[(]",
    "format=xml",
    "bookmark_not_found=x",
    "rate=1,rate=2",
    "conflation_key=[]",
    "conflation_key=[x",
    "x" * 300_000,
)

USED: dict[str, Sequence[str]] = {
    **dict.fromkeys(
        ("sow", "explain"),
        ("filter", "condition", "order_by", "top_n", "sow_keys", "bookmark", "batch_size", "query_id"),
    ),
    **dict.fromkeys(
        SUBSCRIBES, ("filter", "condition", "bookmark", "up_to", "order_by", "top_n", "sow_keys", "sub_id")
    ),
    "timeline": ("key", "bookmark", "up_to", "limit", "reversed", "batch_size", "query_id"),
    "publish": ("data", "expiration", "correlation_id", "sow_key", "traceparent"),
    "delta_publish": ("data", "expiration", "correlation_id", "sow_key"),
    "delta": ("data", "key", "tags", "change_id", "correlation_id"),
    "sow_delete": ("filter", "sow_keys", "data", "sow_key"),
    "unsubscribe": ("sub_id", "query_id"),
    "pause": ("sub_id",),
    "resume": ("sub_id",),
    "heartbeat": ("sub_id",),
    "logon": ("token",),
    "watch_outcomes": ("query_id",),
    "outcome": ("data", "query_id"),
    "fetch": ("query_id", "top_n", "skip_n"),
}
"""The usual fields of commands, apart from those of all."""

NODE_FIELDS = ("merges", "relays", "shares", "user", "sample_n", "replaces")

RAW = (
    b"",
    b"[]",
    b"[",
    b"{}",
    b'"sow"',
    b"null",
    b'{"command":5}',
    b'{"command":"SOW"}',
    b'{"command":""}',
    b'{"command":"\xff","command_id":"1"}',
    b'{"command":"sow","command_id":"\\ud800"}',
    b'{"command":"sow","command_id":"1"} x',
    b'[{"command":"heartbeat","command_id":"1"},{"command":"sow","command_id":"2"},5]',
    b'[{"command":"heartbeat","command_id":"1","ack_type":"completed"},{"command":"heartbeat"}]',
    b"[" * 5000,
    b'{"command":"sow","command_id":"8","topic":"orders","color":[[[]]]}',
    b'{"command":"sow","command_id":"8","filter":"' + b"," * 600_000 + b'"}',
    b'{"command":"sow","command_id":"8","sow_keys":"' + b"1," * 100_001 + b'"}',
)
"""Frames that are not what a request is."""


@dataclass(frozen=True)
class Asked:
    """One recorded request: who is asked, and the frames; over HTTP one frame with `path`, `query` and `body`."""

    api: str
    frames: tuple[bytes, ...]


def recorded() -> list[Asked]:
    """Return the requests, always the same ones."""
    chance = random.Random(SEED)
    raw = [Asked("service", (frame,)) for frame in RAW]
    return raw + [_asked(chance) for _ in range(COUNT - len(raw))]


def _asked(chance: random.Random) -> Asked:
    (api,) = chance.choices(list(APIS), list(APIS.values()))
    if api in ("http", "gateway http"):
        return Asked(api, (_over_http(chance),))
    if api == "stream":
        return Asked(api, (_stream(chance),))
    command = chance.choice(COMMANDS)
    first = _request(chance, command, api)
    if command in SUBSCRIBES and chance.random() < 0.3:
        # What is done with the subscription, or instead of it.
        later = chance.choice(("pause", "resume", "unsubscribe", "heartbeat", "replace", "replace"))
        second = _request(chance, command, api) if later == "replace" else {"command": later}
        if later == "replace":
            second["options"] = ",".join(filter(None, [str(second.get("options", "")), "replace"]))
            second.pop("bookmark", None)
        second |= {"command_id": "2", "sub_id": first.get("sub_id", "1"), "ack_type": "processed,completed"}
        return Asked(api, (_text(first), _text(second)))
    return Asked(api, (_text(first),))


def _text(request: Json) -> bytes:
    return json.dumps(request).encode()


def _usual_acks(command: str) -> str:
    has_counts = command in ("sow", "sow_and_subscribe", "sow_and_delta_subscribe", *WRITES)
    return "processed,completed" + (",stats" if has_counts else "")


def _request(chance: random.Random, command: str, api: str) -> Json:
    request: Json = {"command": command, "command_id": "1", "topic": chance.choice(GOOD["topic"])}
    request["ack_type"] = _usual_acks(command) if chance.random() < 0.9 else chance.choice(GOOD["ack_type"])
    used = USED.get(command, ())
    for name in chance.sample(used, min(len(used), chance.randrange(4))):
        request[name] = chance.choice(GOOD[name])
    request |= _needed(chance, command)
    if chance.random() < 0.1:
        request["skip_n"], request["top_n"] = chance.choice(GOOD["skip_n"]), chance.choice((1, 5, 600))
    if chance.random() < 0.5:
        request["options"] = ",".join(chance.sample(GOOD_OPTIONS, chance.randrange(1, 4)))
    if chance.random() < 0.3:
        # Another command's field is passed over.
        name = chance.choice([name for name in GOOD if name not in NODE_FIELDS or chance.random() < 0.1])
        request.setdefault(name, chance.choice(GOOD[name]))
    if api == "of a gateway":
        _of_gateway(chance, request)
    for _ in range(chance.choices((0, 1, 2), (64, 28, 8))[0]):
        _spoil(chance, request)
    return request


def _needed(chance: random.Random, command: str) -> Json:
    """Return what a command is mostly refused without."""
    needed: Json = {}
    if command in ("delta", "timeline") and chance.random() < 0.8:
        needed |= {"topic": "docs", "key": "1"}
    if command in ("publish", "delta_publish"):
        needed["data"] = chance.choice(GOOD["data"])
    if command == "outcome":
        needed["data"] = {"origin": [0, 99], "partitions": [0]}
    if command == "delta":
        needed["data"] = '{..,"a":1}'
    if command in ("unsubscribe", "pause", "resume") and chance.random() < 0.7:
        needed["sub_id"] = "all"
    return needed


def _of_gateway(chance: random.Random, request: Json) -> None:
    """Add fields that only gateways send."""
    for name in chance.sample(("merges", "relays", "shares", "user", "sample_n"), chance.randrange(3)):
        request[name] = chance.choice(GOOD[name])
    if request["command"] == "sow" and chance.random() < 0.3:
        request |= {"topic": "orders", "replaces": chance.choice(GOOD["replaces"])}
        request.pop("bookmark", None)


def _spoil(chance: random.Random, request: Json) -> None:
    kind = chance.random()
    if kind < 0.3:
        given = str(request.get("options", ""))
        request["options"] = ",".join(filter(None, [given, chance.choice(BAD_OPTIONS)]))
    elif kind < 0.35:
        request.pop(chance.choice(list(request)))
    else:
        used = USED.get(request.get("command", ""), ())
        name = chance.choice([*used, "ack_type", "topic"] if kind < 0.8 else list(BAD))
        # Mostly a value that has the right type.
        request[name] = min(chance.choices(BAD[name], k=2), key=lambda value: value == 5 or value is None)


def _over_http(chance: random.Random) -> bytes:
    """Return a POST of a query, or a GET of a record or a timeline."""
    kind = chance.choice(("sow", "sow", "explain", "timeline", "record"))
    request = _request(chance, "timeline" if kind in ("timeline", "record") else kind, "http")
    topic = str(request.pop("topic", "orders"))
    _keep(chance, request, {*USED["timeline"]} if kind == "timeline" else {*USED["sow"], "skip_n", "options"})
    if kind in ("timeline", "record"):
        key = str(request.pop("key", "1")) or "1"
        tail = "/timeline" if kind == "timeline" else ""
        query = {name: str(value) for name, value in request.items()} if kind == "timeline" else {}
        return _text({"path": f"/v1/topics/{topic}/records/{key[:99]}{tail}", "query": query})
    in_url = {name: str(request.pop(name)) for name in list(request) if chance.random() < 0.3}
    return _text({"path": f"/v1/topics/{topic}/{kind}", "query": in_url, "body": request})


def _keep(chance: random.Random, request: Json, names: set[str]) -> None:
    """Leave out most of the other fields: over HTTP they are not passed over."""
    for name in list(request):
        is_known = name in names and name not in ("query_id", "sub_id", "batch_size")
        if not is_known and chance.random() < 0.97:
            del request[name]


def _stream(chance: random.Random) -> bytes:
    """Return a GET of an event stream."""
    request = _request(chance, chance.choice(SUBSCRIBES), "stream")
    topic = str(request.pop("topic", "orders"))
    _keep(chance, request, {*USED["subscribe"], "command", "skip_n", "options"})
    query = {name: value if isinstance(value, list) else str(value) for name, value in request.items()}
    last = chance.choice(("", "", "", FOUND, "orders:0@1,1@1;end", "x"))
    return _text({"path": f"/v1/topics/{topic}/subscribe", "query": query, "last": last})
