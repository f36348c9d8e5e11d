"""A registry's client against a server that answers what a test gives it, and keeps what it was asked."""

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sowline.codecs.schema import AVRO, JSON_SCHEMA, PROTOBUF, Schema
from sowline.errors import SowlineError
from sowline.registry import client
from sowline.registry.client import Registry, RegistryAway, Resolved

JSON_TYPE = "application/vnd.schemaregistry.v1+json"
NOT_FOUND = {40401: "Subject not found.", 40402: "Version not found.", 40403: "Schema not found"}


class Answering(ThreadingHTTPServer):
    """Answers by method and path; what has no answer is a 404 as of a wrong address."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, tuple[int, bytes, str]] = {}
        self.asked: list[tuple[str, Any]] = []
        self.authorization: str | None = None

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}"

    def give(self, call: str, document: Any, status: int = 200) -> None:
        """Answer a call, like `GET /subjects`, with JSON."""
        self.answers[call] = status, json.dumps(document).encode(), JSON_TYPE

    def refuse(self, call: str, code: int, status: int = 404) -> None:
        """Refuse a call with a code of the API."""
        self.give(call, {"error_code": code, "message": NOT_FOUND.get(code, "refused")}, status)


class _Handler(BaseHTTPRequestHandler):
    server: Answering

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _answer(self, body: Any) -> None:
        call = f"{self.command} {self.path}"
        self.server.asked.append((call, body))
        self.server.authorization = self.headers["Authorization"]
        wrong = 404, b'{"error_code":404,"message":"HTTP 404 Not Found"}', JSON_TYPE
        status, content, kind = self.server.answers.get(call, wrong)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Write nothing."""


@pytest.fixture
def server() -> Iterator[Answering]:
    """A server without any answers."""
    with Answering() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def registry(server: Answering) -> Iterator[Registry]:
    """Its client."""
    registry = Registry(server.url)
    yield registry
    registry.close()


def reference(name: str, version: int = 1) -> dict[str, Any]:
    """Return a reference to a schema whose subject is its name."""
    return {"name": name, "subject": name, "version": version}


def test_resolve(server: Answering, registry: Registry) -> None:
    """A schema without a type is Avro; of its subjects, the first is named."""
    server.give("GET /schemas/ids/7", {"schema": '"string"'})
    subjects = [
        {"subject": "b", "version": 1},
        {"subject": "a", "version": 4},
        {"subject": "a", "version": 3},
    ]
    server.give("GET /schemas/ids/7/versions", subjects)
    assert registry.resolve(7) == Resolved(Schema(AVRO, '"string"'), "a", 3, 7)


def test_without_subject(server: Answering, registry: Registry) -> None:
    """A registry that has no call for the subjects of an id leaves them empty."""
    server.give("GET /schemas/ids/7", {"schema": "{}", "schemaType": "JSON"})
    assert registry.resolve(7) == Resolved(Schema(JSON_SCHEMA, "{}"), "", None, 7)


def test_references(server: Answering, registry: Registry) -> None:
    """All that a schema refers to comes before what refers to it, each once; deleted subjects count."""
    server.give(
        "GET /schemas/ids/7",
        {"schema": "top", "schemaType": "PROTOBUF", "references": [reference("b"), reference("c")]},
    )
    server.give("GET /schemas/ids/7/versions", [])
    below = {"b": ["d"], "c": ["d", "b"], "d": []}
    for name, references in below.items():
        found = {"schema": f"text {name}", "version": 1, "references": list(map(reference, references))}
        server.give(f"GET /subjects/{name}/versions/1?deleted=true", found)
    resolved = registry.resolve(7)
    assert resolved is not None
    assert resolved.schema == Schema(PROTOBUF, "top", (("d", "text d"), ("b", "text b"), ("c", "text c")))
    assert len(server.asked) == 5


def test_unknown_id(server: Answering, registry: Registry) -> None:
    """An id is unknown only if the registry says that it has no such schema."""
    server.refuse("GET /schemas/ids/7", 40403)
    assert registry.resolve(7) is None
    assert registry.resolve(2**31) is None  # never asked: registries answer as to a wrong address
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("status", "content", "kind", "message"),
    [
        (404, b'{"error_code":404,"message":"HTTP 404 Not Found"}', JSON_TYPE, "404: HTTP 404 Not Found"),
        (404, b"<html>nothing here</html>", "text/html", "404: <html>"),
        (404, b"[]", JSON_TYPE, "404"),
        (404, b'{"error_code":"40403"}', JSON_TYPE, "a number from the registry"),
        (401, b'{"error_code":40101,"message":"Unauthorized"}', JSON_TYPE, "401: Unauthorized"),
        (500, b'{"error_code":50001,"message":"store"}', JSON_TYPE, "500: store"),
        (500, b'{"error_code":40403,"message":"store"}', JSON_TYPE, "500: store"),
        (302, b"", "text/html", "302"),
        (200, b"<html>log on</html>", "text/html", "200: <html>"),
        (200, b'{"schema":{}}', JSON_TYPE, "200"),
        (200, b"{}", JSON_TYPE, "200"),
        (200, b"[" * 100_000, JSON_TYPE, "200"),
        (200, b'{"schema":"\\ud800"}', JSON_TYPE, "200"),
        (200, b'{"schema":"","references":[{"name":"x"}]}', JSON_TYPE, "name, subject and version"),
        (200, b" " * (client.ANSWER_BYTES_MAX + 1), "text/html", "at most 4194304 bytes"),
    ],
)
def test_away(
    server: Answering, registry: Registry, status: int, content: bytes, kind: str, message: str
) -> None:
    """Every other answer is no answer about the id."""
    server.answers["GET /schemas/ids/7"] = status, content, kind
    with pytest.raises(RegistryAway, match=message) as away:
        registry.resolve(7)
    assert away.value.reason == "registry away"


def test_subjects_away(server: Answering, registry: Registry) -> None:
    """A schema whose subjects can't be asked for now is not resolved without them."""
    server.give("GET /schemas/ids/7", {"schema": "{}"})
    server.refuse("GET /schemas/ids/7/versions", 50001, 500)
    with pytest.raises(RegistryAway, match="500"):
        registry.resolve(7)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "registry", "http://anna:secret@[::1", "http://a..b"])
def test_no_server(url: str) -> None:
    """A URL where nothing answers, or that is none; a password is not in the message."""
    with (
        closing(Registry(url)) as registry,
        pytest.raises(RegistryAway, match="expected a schema registry to answer") as away,
    ):
        registry.resolve(7)
    assert "secret" not in away.value.message


def test_timeout() -> None:
    """A server that accepts and never answers."""
    with (
        Answering() as server,
        closing(Registry(server.url, timeout=0.05)) as registry,
        pytest.raises(RegistryAway, match="timed out"),
    ):
        registry.resolve(7)


def test_slow_answer(server: Answering) -> None:
    """The time is for the whole answer, not for each of its parts."""
    server.give("GET /schemas/ids/7", {"schema": "{}"})
    with closing(_Instant(server.url)) as registry, pytest.raises(RegistryAway, match="too slow"):
        registry.resolve(7)


class _Instant(Registry):
    """Has no time left once an answer begins."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._timeout_seconds = -1.0


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"schema": "", "schemaType": "XML"}, "AVRO, PROTOBUF or JSON for schema 7, got XML"),
        ({"schema": "", "references": [reference("gone")]}, "of gone, to which schema 7 refers"),
        ({"schema": "", "references": [reference("circle")]}, "no references in a circle"),
        ({"schema": "", "references": [reference("deep0")]}, "references at most 30 deep"),
        ({"schema": "", "references": [reference("deep28"), reference("deep28", 2)]}, "one text of deep28"),
        ({"schema": "", "references": [reference("deep29", n) for n in range(3, 204)]}, "200 references"),
        ({"schema": "x", "references": [reference("large1"), reference("large2")]}, "4194304 bytes"),
        ({"schema": "x" * client.ANSWER_BYTES_MAX}, "at most 4194304 bytes"),
    ],
)
def test_bad_schema(server: Answering, registry: Registry, found: dict[str, Any], message: str) -> None:
    """A schema that the registry has but that can't be used is definite too."""
    server.give("GET /schemas/ids/7", found)
    server.refuse("GET /subjects/gone/versions/1?deleted=true", 40402)
    circle = {"schema": "", "references": [reference("circle"), reference("circle")]}
    server.give("GET /subjects/circle/versions/1?deleted=true", circle)
    for n in range(29):
        next_one = {"schema": "", "references": [reference(f"deep{n + 1}")]}
        server.give(f"GET /subjects/deep{n}/versions/1?deleted=true", next_one)
    server.give("GET /subjects/deep28/versions/2?deleted=true", {"schema": "other"})
    server.give(
        "GET /subjects/deep29/versions/1?deleted=true", {"schema": "", "references": [reference("deep30")]}
    )
    server.give("GET /subjects/deep30/versions/1?deleted=true", {"schema": ""})
    for n in range(3, 204):
        server.give(f"GET /subjects/deep29/versions/{n}?deleted=true", {"schema": ""})
    for n in (1, 2):
        large = {"schema": "x" * (client.ANSWER_BYTES_MAX // 2)}
        server.give(f"GET /subjects/large{n}/versions/1?deleted=true", large)
    with pytest.raises(SowlineError, match=message) as bad:
        registry.resolve(7)
    assert bad.value.reason == "bad schema"


def test_subjects(server: Answering, registry: Registry) -> None:
    """The latest, a certain and all versions of a subject, whose name is quoted."""
    one = {"subject": "shop/a", "version": 1, "id": 5, "schema": "1", "schemaType": "PROTOBUF"}
    two = {"subject": "shop/a", "version": 2, "id": 6, "schema": "2", "schemaType": "PROTOBUF"}
    server.give("GET /subjects/shop%2Fa/versions/1", one)
    server.give("GET /subjects/shop%2Fa/versions/latest", two)
    server.give("GET /subjects/shop%2Fa/versions", [2, 1])
    assert registry.latest("shop/a") == Resolved(Schema(PROTOBUF, "2"), "shop/a", 2, 6)
    assert registry.version("shop/a", 1) == Resolved(Schema(PROTOBUF, "1"), "shop/a", 1, 5)
    assert registry.versions("shop/a") == (1, 2)


def test_no_subject(server: Answering, registry: Registry) -> None:
    """A subject or a version that is not there is named."""
    server.refuse("GET /subjects/a/versions/latest", 40401)
    server.refuse("GET /subjects/a/versions/3", 40402)
    server.refuse("GET /subjects/a/versions", 40401)
    with pytest.raises(
        SowlineError, match=r"the latest schema of a, but .* 404: Subject not found"
    ) as unknown:
        registry.latest("a")
    assert unknown.value.reason == "unknown schema"
    with pytest.raises(SowlineError, match=r"version 3 of a, but .* 404: Version not found"):
        registry.version("a", 3)
    assert registry.versions("a") == ()
    with pytest.raises(RegistryAway):
        registry.versions("b")


def test_id_of(server: Answering, registry: Registry) -> None:
    """A schema is looked up with its references, under their names."""
    schema = Schema(AVRO, "shop.Line", (("shop.Sku", "sku"), ("shop.Line", "uses Sku")))
    server.give("POST /subjects/shop.Sku", {"id": 1, "version": 4})
    server.give("POST /subjects/shop.Line", {"id": 2, "version": 5})
    server.give("POST /subjects/orders", {"id": 3, "version": 6})
    assert registry.id_of("orders", schema) == 3
    assert [body["references"] for _, body in server.asked] == [
        [],
        [reference("shop.Sku", 4)],
        [reference("shop.Line", 5)],
    ]
    assert server.asked[-1][1]["schema"] == "shop.Line"
    assert server.asked[-1][1]["schemaType"] == "AVRO"
    server.refuse("POST /subjects/orders", 40403)
    assert registry.id_of("orders", schema) is None
    server.refuse("POST /subjects/shop.Sku", 40401)
    assert registry.id_of("orders", schema) is None


def test_register(server: Answering, registry: Registry) -> None:
    """What a schema refers to is registered before it."""
    schema = Schema(PROTOBUF, 'import "line.proto";', (("line.proto", "line"),))
    server.give("POST /subjects/line.proto/versions", {"id": 1})
    server.give("POST /subjects/line.proto", {"id": 1, "version": 2})
    server.give("POST /subjects/orders/versions", {"id": 3})
    assert registry.register("orders", schema) == 3
    line = {"schema": "line", "schemaType": "PROTOBUF", "references": []}
    top = {"schema": schema.text, "schemaType": "PROTOBUF", "references": [reference("line.proto", 2)]}
    assert server.asked == [
        ("POST /subjects/line.proto/versions", line),
        ("POST /subjects/line.proto", line),
        ("POST /subjects/orders/versions", top),
    ]
    server.refuse("POST /subjects/line.proto", 40403)
    with pytest.raises(RegistryAway, match="the references of orders"):
        registry.register("orders", schema)


@pytest.mark.parametrize("status", [401, 403, 409, 422])
def test_refused_register(server: Answering, registry: Registry, status: int) -> None:
    """A schema that the registry refuses: with its sentence."""
    server.give("POST /subjects/a/versions", {"error_code": status, "message": "no id"}, status)
    with pytest.raises(SowlineError, match=f"under a, but the registry answered {status}: no id") as refused:
        registry.register("a", Schema(AVRO, "{}"))
    assert refused.value.reason == "not registered"


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_register_away(server: Answering, registry: Registry, status: int) -> None:
    """A registry that can't register now."""
    server.give("POST /subjects/a/versions", {"error_code": status, "message": "later"}, status)
    with pytest.raises(RegistryAway, match=f"{status}: later"):
        registry.register("a", Schema(AVRO, "{}"))


def test_user(server: Answering) -> None:
    """A user and a password come as a pair, or in the URL."""
    server.give("GET /subjects/a/versions", [])
    anna = f"Basic {base64.b64encode(b'anna:secret').decode()}"
    with closing(Registry(f"{server.url}/", auth=("anna", "secret"))) as registry:
        registry.versions("a")
        assert server.authorization == anna
    with closing(Registry(server.url.replace("//", "//anna:secret@"))) as registry:
        server.authorization = None
        registry.versions("a")
        assert server.authorization == anna


def test_ca_file(tmp_path: Path) -> None:
    """A CA file that is none is named."""
    with pytest.raises(SowlineError, match=r"CA certificates in .*none\.pem") as bad:
        Registry("https://127.0.0.1:1", ca_file=tmp_path / "none.pem")
    assert bad.value.reason == "bad configuration"
