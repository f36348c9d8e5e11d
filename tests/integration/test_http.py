"""HTTP: queries as lines of JSON, topics, and what every service says of itself."""

import json
import re
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from urllib.parse import quote, urlencode, urlsplit

import pytest

from sowline import __version__
from sowline.model.key import sow_key
from tests.described import check_answer
from tests.integration.services import Service, System, http_status, http_text, system
from tests.integration.wire import Json
from tests.waiting import wait_for

SERVICES = ("materializer", "query_service", "fanout")


class Served:
    """A system with one service of each kind, and ten records."""

    def __init__(self, made: System) -> None:
        self.topic = made.topics.topics[0].name
        self.system = made
        self.services: dict[str, Service] = {name: made.service(name).start() for name in SERVICES}
        for service in self.services.values():
            service.wait_ready()
        self.url = self.services["query_service"].url
        made.write(self.topic, *({"id": number, "text": "é/ü"} for number in range(10)))
        made.wait_settled(self.url, self.topic)


@pytest.fixture(scope="module")
def served(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """All services, over a topic with a slash in its name."""
    name = f"t{uuid.uuid4().hex[:12]}/http"
    topics = [{"name": name, "key": "/id", "partitions": 2}]
    fanouts = [{"name": name.replace("/", "-"), "topic": name}]
    with system(kafka, tmp_path_factory.mktemp("http"), topics, fanouts) as made:
        yield Served(made)


def ask(url: str, body: bytes | None = None) -> tuple[int, bytes, dict[str, str]]:
    """Return status, body and headers of a GET, or of a POST of `body`."""
    try:
        with urllib.request.urlopen(url, body, timeout=10) as answer:
            status, text, headers = answer.status, answer.read(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            status, text, headers = error.code, error.read(), dict(error.headers)
    path = urlsplit(url).path
    if path.startswith("/v1/"):
        check_answer("GET" if body is None else "POST", path, status, headers["content-type"], text)
    return status, text, headers


@pytest.mark.parametrize("in_body", [True, False])
def test_query(served: Served, in_body: bool) -> None:
    """A query answers with a line of JSON for each record, and a header that names its instant."""
    url, fields = f"{served.url}/v1/topics/{served.topic}/sow", {"filter": "/id >= 7", "options": "timestamp"}
    if not in_body:
        url += "?" + "&".join(f"{name}={quote(value)}" for name, value in fields.items())
    status, body, headers = ask(url, json.dumps(fields).encode() if in_body else b"")
    records = [json.loads(line) for line in body.splitlines()]
    assert status == 200
    assert headers["content-type"] == "application/x-ndjson"
    assert headers["sowline-bookmark"].startswith(served.topic.replace("/", ".") + ":0@")
    assert sorted(record["data"]["id"] for record in records) == [7, 8, 9]
    assert all(record.keys() == {"sow_key", "updated_at", "timestamp", "data"} for record in records)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"order_by": "/id DESC", "top_n": 3, "skip_n": 2}, [7, 6, 5]),
        ({"order_by": "/id TEXT", "filter": "/id < 3"}, [0, 1, 2]),
        ({"top_n": 0}, []),
        ({"sow_keys": ["2", "5", "99"], "order_by": "/id"}, [2, 5]),
        ({"topic": "^.*/http", "filter": "/text LIKE 'é/'", "order_by": "/id", "top_n": 2}, [0, 1]),
    ],
    ids=str,
)
@pytest.mark.parametrize("in_body", [True, False])
def test_order_limits_and_keys(served: Served, fields: Json, expected: list[int], in_body: bool) -> None:
    """A query over HTTP takes what one over WebSocket takes, in the URL or in the body."""
    asked = dict(fields)
    topic = asked.pop("topic", served.topic)
    if "sow_keys" in asked:
        prefix = served.system.topic(served.topic).declared.domain_prefix
        asked["sow_keys"] = [sow_key(prefix, id).decode() for id in asked["sow_keys"]]
    url = f"{served.url}/v1/topics/{quote(topic)}/sow"
    if not in_body:
        texts = {name: ",".join(given) if name == "sow_keys" else str(given) for name, given in asked.items()}
        url += "?" + urlencode(texts)
    status, body, _ = ask(url, json.dumps(asked).encode() if in_body else b"")
    assert status == 200
    assert [json.loads(line)["data"]["id"] for line in body.splitlines()] == expected


def test_select_over_http(served: Served) -> None:
    """Only the fields that are asked for are sent."""
    body = b'{"options": "no_sowkey,select=[-/,+/id]", "filter": "/id = 3"}'
    _, line, _ = ask(f"{served.url}/v1/topics/{served.topic}/sow", body)
    record: Json = json.loads(line)
    assert (record.keys(), record["data"]) == ({"updated_at", "data"}, {"id": 3})


def test_explain_over_http(served: Served) -> None:
    """The access path of a query, and what it would find there, without a record."""
    status, answer, _ = ask(f"{served.url}/v1/topics/{served.topic}/explain", b'{"filter": "/id > 6"}')
    explanation: Json = json.loads(answer)
    (access_path,) = explanation["access_paths"]
    assert status == 200
    assert explanation["bookmark"].startswith(served.topic.replace("/", ".") + ":0@")
    assert [
        access_path[name] for name in ("topic", "access_path", "index", "records", "candidates", "matches")
    ] == [
        served.topic,
        "memo index",
        "/id",
        10,
        3,
        3,
    ]
    status, answer, _ = ask(f"{served.url}/v1/topics/{served.topic}/explain", b'{"filter": "/id >"}')
    assert (status, json.loads(answer)["reason"]) == (400, "bad filter")


@pytest.mark.parametrize(
    ("topic", "body", "status", "reason"),
    [
        ("nothing", b"", 404, "invalid topic"),
        (None, b'{"filter": "/id ="}', 400, "bad filter"),
        (None, b'{"options": "fast"}', 400, "invalid options"),
        (None, b'{"color": "red"}', 400, "bad request"),
        (None, b'{"skip_n": 1}', 400, "invalid skip_n"),
        (None, b'{"top_n": -1}', 400, "invalid top_n"),
        (None, b'{"order_by": "/id UP"}', 400, "invalid order by"),
        ("%5E(", b"", 400, "bad regex topic"),
        ("%5Enothing", b"", 404, "invalid topic"),
        (None, b'{"filter": 1}', 400, "bad request"),
        (None, b"[]", 400, "bad request"),
        (None, b"{", 400, "bad request"),
    ],
)
def test_bad_query(served: Served, topic: str | None, body: bytes, status: int, reason: str) -> None:
    """A query that can't be answered is refused with a status, a reason and a sentence."""
    found, answer, _ = ask(f"{served.url}/v1/topics/{topic or served.topic}/sow", body)
    error: Json = json.loads(answer)
    assert (found, error["reason"]) == (status, reason)
    assert error["message"].startswith("expected")


def test_topics(served: Served) -> None:
    """The list of topics says what a publisher needs to know, and how far the service is."""

    def level() -> Json | None:
        about: Json = json.loads(http_text(f"{served.url}/v1/topics"))
        (topic,) = about["topics"]
        return about if (topic["lag"], topic["changes_behind"]) == (0, 0) else None

    about = wait_for(level, "the service to know that it is level")
    (topic,) = about["topics"]
    assert about["kafka"] == served.system.kafka
    assert topic.pop("bookmark").count("@") == 2
    assert topic.pop("changes") >= 10
    assert (topic.pop("lag"), isinstance(topic.pop("indexes"), list)) == (0, True)
    assert topic.pop("newest_seconds") >= 0
    assert 0 <= topic.pop("lag_seconds") < 600
    assert [(one["partition"], one["lag"]) for one in topic.pop("lags")] == [(0, 0), (1, 0)]
    assert topic.pop("changes_behind") == 0
    assert topic.pop("subscriptions") >= 0
    assert topic == {
        "name": served.topic,
        "message_type": "json",
        "message_format": None,
        "reader_schema": None,
        "framing": None,
        "view": None,
        "reflects": None,
        "sow": True,
        "documents": False,
        "key": ["/id"],
        "key_domain": served.topic,
        "preprocessing": [],
        "log": served.topic.replace("/", "."),
        "partitions": 2,
        "record_bytes_max": 1024 * 1024,
        "changes_kept_seconds": 3600.0,
        "records": 10,
        "loading": False,
        "select": None,
    }


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("path", ["startupz", "readyz", "healthz"])
def test_health(served: Served, name: str, path: str) -> None:
    """Every service that works says so, three times, and names its version."""
    status, body, headers = ask(f"{served.services[name].url}/{path}")
    assert (status, json.loads(body), headers["sowline-version"]) == (200, {"status": "ok"}, __version__)


def test_metrics(served: Served) -> None:
    """Every service counts what it has done, and answers as often as it is asked."""
    materializer, query, fanout = (served.services[name] for name in SERVICES)
    assert materializer.metric("sowline_log_records_total") == 10
    assert materializer.metric('sowline_changes_total{command="publish"}') == 10
    assert materializer.metric("sowline_partitions") == 2
    assert materializer.metric("sowline_behind_records") == 0
    assert query.metric("sowline_records") == 10
    assert query.metric("sowline_sessions") == 0
    wait_for(lambda: fanout.metric("sowline_fanout_messages_total") == 10, "the fanout to write all")
    nothing_waits = r"^sowline_\w+_behind_changes\{.*\} 0\.0$"
    for service in (query, fanout):
        wait_for(
            lambda url=service.url: re.search(nothing_waits, http_text(f"{url}/metrics"), re.MULTILINE),
            "nothing to wait",
        )
    lags = re.findall(
        r'^sowline_lag_(\w+)\{partition="(\d)".*\} ', http_text(f"{query.url}/metrics"), re.MULTILINE
    )
    assert sorted(lags) == [("records", "0"), ("records", "1"), ("seconds", "0"), ("seconds", "1")]
    assert query.metric("sowline_lag_records") == 0
    assert 0 <= query.metric("sowline_lag_seconds") < 600
    assert 1 <= materializer.metric("sowline_append_to_emit_seconds_count") <= 10
    assert materializer.metric("sowline_append_to_emit_seconds_sum") < 600
    deliveries = query.metric("sowline_append_to_delivery_seconds_count")
    assert (deliveries > 0) == (query.metric("sowline_replica_changes_total") > 0)
    for service in (materializer, query, fanout):
        for _ in range(3):
            assert "# HELP sowline_" in http_text(f"{service.url}/metrics")


def test_what_no_route_takes(served: Served) -> None:
    """An unknown path or method is refused as anything else is; so is a body that is too large."""
    for path, status in (("/v2", 404), (f"/v1/topics/{served.topic}/sow", 405)):
        found, answer, _ = ask(f"{served.url}{path}")
        assert (found, json.loads(answer)["reason"]) == (status, "bad request")
    found, answer, _ = ask(f"{served.url}/v1/topics/{served.topic}/sow", b'{"filter": "%s"}' % (b"x" * 2**23))
    assert (found, json.loads(answer)["reason"]) == (413, "too large")


def test_stopped_partition(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A materializer that had to stop a partition is alive but not ready, and says why; the others go on."""
    name = f"t{uuid.uuid4().hex[:12]}-stopped"
    with system(kafka, tmp_path_factory.mktemp("stopped"), [{"name": name, "key": "/id"}]) as made:
        first = made.service("materializer").start().wait_ready()
        made.write(name, {"id": 1})
        first.stop()
        made.config.write_text(
            made.config.read_text().replace("key:\n  - /id", "key: /id").replace("/id", "/other")
        )
        second = made.service("materializer").start()
        assert wait_for_text(second, "readyz")["message"].startswith(
            f"{name} [0]: expected the definition that made the state of topic {name}, got another"
        )
        assert http_status(f"{second.url}/healthz") == 200
        assert second.metric("sowline_partitions_stopped") == 1


def wait_for_text(service: Service, path: str) -> Json:
    """Return what a service says once it says why a partition stopped."""
    found: Json = {}

    def says() -> bool:
        assert service.running, service.log
        if service.answers:
            found.update(json.loads(ask(f"{service.url}/{path}")[1]))
        return "[0]: " in found.get("message", "")

    wait_for(says, "the materializer to say why it is not ready")
    return found
