"""Everything on one machine: what each service is told."""

import sys
from hashlib import sha256
from pathlib import Path
from threading import Event

import httpx2
import pytest

from sowline.errors import SowlineError
from sowline.runtime import local_stack
from sowline.runtime.local_stack import LocalStack, StackProcess, wait_ready
from sowline.serving.authorization.access_file import parse_access
from sowline.serving.authorization.identity import NOTHING


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A file of topics, with a fanout."""
    path = tmp_path / "topics.yaml"
    path.write_text("topics: [{name: orders, key: /id}]\nfanouts: [{name: late, topic: orders}]")
    return path


def services(stack: LocalStack) -> list[StackProcess]:
    """Return the services, without their ports, which nobody needs here."""
    found = stack.services("kafka:9092")
    for service in found:
        service.close()
    return found


def environments(stack: LocalStack) -> dict[str, dict[str, str]]:
    """Return the environment of each service, by its name."""
    return {service.name: service.environment for service in services(stack)}


def test_the_access_file_is_the_query_service_s(config: Path, tmp_path: Path) -> None:
    """By its whole path; the others serve no clients that it could be about."""
    access = tmp_path / "access.yaml"
    given = environments(LocalStack(config, tmp_path, "127.0.0.1", 0, None, access=access))
    assert given["query service"]["SOWLINE_ACCESS"] == str(access)
    assert not any("SOWLINE_ACCESS" in given[name] for name in ("materializer", "fanout"))
    assert (
        "SOWLINE_ACCESS"
        not in environments(LocalStack(config, tmp_path, "127.0.0.1", 0, None))["query service"]
    )


@pytest.mark.parametrize(("certificate", "scheme"), [("", "http"), ("own.pem", "https")])
def test_where_it_answers(
    config: Path, tmp_path: Path, certificate: str, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over https where there is a certificate; other services have none."""
    monkeypatch.setenv("SOWLINE_TLS_CERT", certificate)
    urls = {one.name: one.url for one in services(LocalStack(config, tmp_path, "0.0.0.0", 0, None))}
    assert urls["query service"].startswith(f"{scheme}://127.0.0.1:")
    assert urls["materializer"].startswith("http://")


def test_shards_are_behind_a_gateway(config: Path, tmp_path: Path) -> None:
    """Clients use the gateway; its nodes hold a shard each, on this machine only, and accept no other client."""
    stack = LocalStack(config, tmp_path, "0.0.0.0", 0, None, access=tmp_path / "access.yaml", shards=3)
    named = {service.name: service for service in services(stack)}
    nodes = [named[f"shard {number}"] for number in range(3)]
    given = {name: service.environment for name, service in named.items()}
    gateway = given["query service"]
    assert gateway["SOWLINE_NODES"] == ",".join(node.url for node in nodes)
    assert gateway["SOWLINE_ACCESS"] == str(tmp_path / "access.yaml")
    assert [given[node.name]["SOWLINE_SHARD"] for node in nodes] == ["0/3", "1/3", "2/3"]
    assert len({given[node.name]["SOWLINE_SNAPSHOT_DIR"] for node in nodes}) == 3
    assert all(node.url.startswith("http://127.0.0.1:") for node in nodes)
    access = parse_access(Path(given["shard 0"]["SOWLINE_ACCESS"]).read_text())
    token = Path(gateway["SOWLINE_NODES_TOKEN_FILE"]).read_text()
    proof = access.proof_of_token(sha256(token.encode()).hexdigest())
    assert proof is not None
    rights = access.identity(proof).rights
    assert (rights.is_gateway, bool(rights.read)) == (True, False)
    with pytest.raises(SowlineError, match="expected a token"):
        access.identity(NOTHING)


LATE = "orders [0]: orders [0] begins at offset 5. To continue without them, start with --accept-loss"


@pytest.mark.parametrize(("why", "more"), [(LATE, f": {LATE}"), ("", "")])
def test_a_service_that_is_not_ready_says_why(
    why: str, more: str, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has its sentence, which names what to do."""
    waited = services(LocalStack(config, tmp_path, "127.0.0.1", 0, None))
    monkeypatch.setattr(StackProcess, "ended", False)
    monkeypatch.setattr(local_stack, "READY_SECONDS_MAX", 0.0)
    monkeypatch.setattr(local_stack, "_not_ready", lambda url: why)
    with pytest.raises(SowlineError) as error:
        wait_ready(waited, Event())
    assert error.value.message == f"the materializer was not ready after 0 s{more}"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_start_is_shown_on_a_terminal(
    is_terminal: bool,
    config: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Which services are ready, and what the others wait for; a log of the service has no such lines."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    monkeypatch.setattr(StackProcess, "ended", False)
    monkeypatch.setattr(local_stack, "TELL_SECONDS", 0.0)
    materializer, query, views, fanout = services(LocalStack(config, tmp_path, "127.0.0.1", 0, None))
    answers: dict[str, list[str | None]] = {
        materializer.url: [None],
        query.url: ["loads orders", "", None],
        views.url: [None],
        fanout.url: [None],
    }
    monkeypatch.setattr(local_stack, "_not_ready", lambda url: answers[url.removesuffix("/readyz")].pop(0))
    assert wait_ready([materializer, query, views, fanout], Event())
    lines = [
        "ready: materializer",
        "not ready yet: query service: loads orders",
        "ready: views",
        "ready: fanout",
        "not ready yet: query service",
        "ready: query service",
    ]
    assert capsys.readouterr() == ("", "".join(f"sowline: {line}\n" for line in lines if is_terminal))


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (200, b'{"status":"ok"}', None),
        (503, b'{"message":"late"}', "late"),
        (503, b"no", ""),
        (503, b"[]", ""),
    ],
)
def test_what_a_service_says(
    status: int, body: bytes, why: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever answers."""
    answer = httpx2.Response(status, content=body)
    monkeypatch.setattr(httpx2, "get", lambda url, **_: answer)
    assert local_stack._not_ready("http://127.0.0.1:1/readyz") == why
