"""The APIs of a query service that has an access file: who comes in, by what, until when, and who does not."""

import json
import os
import re
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from click.testing import CliRunner
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from sowline import Client
from sowline.cli import main
from sowline.cli.doctor import kafka as doctor_kafka
from sowline.errors import SowlineError
from tests.docs.pages import blocks_of
from tests.integration.house import (
    LOGON_SECONDS,
    PAGE,
    ROLES,
    TOKENS,
    House,
    Secured,
    ask,
    failures,
    leaks,
    records,
    secured_service,
    write_access,
)
from tests.integration.issuer import issuer
from tests.integration.services import ROOT, http_text, system
from tests.integration.wire import Wire
from tests.waiting import SECONDS_MAX, wait_for


@pytest.fixture(scope="module")
def secured(house: House, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One over the same topic, to which a certificate is what a token is to the other.

    Whatever the tests have done, both services have kept their secrets.
    """
    made = secured_service(house, tmp_path_factory.mktemp("tls"))
    yield made
    assert leaks(house, made, [house.query.log, made.query.log]) == []


@pytest.fixture(scope="module")
def house(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """One with two records, of two desks."""
    directory, topic = tmp_path_factory.mktemp("apis"), f"t{uuid.uuid4().hex[:12]}-apis"
    access = directory / "access.yaml"
    with issuer() as issues, system(kafka, directory, [{"name": topic, "key": "/id"}]) as made:
        write_access(access, issues)
        limits = {"access": access, "logon_seconds_max": LOGON_SECONDS}
        services = [made.service("materializer").start(), made.service("query_service", **limits).start()]
        made.write(topic, {"id": 1, "desk": "a"}, {"id": 2, "desk": "b"})
        for service in services:
            service.wait_ready()
        one = House(made, services[1], access, topic, issues)
        with one.client(TOKENS["root"]) as client:
            wait_for(lambda: len(records(client, topic)) == 2, "the records to be there")
        yield one


def test_http_asks_for_a_token(house: House) -> None:
    """Where records are; health and metrics are open."""
    assert house.ask("/readyz")[0] == house.ask("/metrics")[0] == 200
    status, answer = house.ask("/v1/topics")
    assert (status, answer["reason"]) == (401, "logon required")
    for wrong in ("guess", "a.b.c", house.issuer.token("ada", aud="others")):
        status, answer = house.ask("/v1/topics", wrong)
        assert (status, answer["reason"]) == (401, "auth failure")
        assert wrong not in answer["message"]
    assert house.ask("/v1/topics", TOKENS["ada"])[0] == 200
    for why in ("unknown token", "malformed", "wrong audience"):
        assert house.query.metric(f'sowline_logons_refused_total{{why="{why}"}}') >= 1
    assert '"why": "wrong audience"' in house.query.log


def test_a_handshake_brings_a_token(house: House) -> None:
    """A wrong one is refused before there is a connection; the answer to a right one tells of the user."""
    with pytest.raises(InvalidStatus) as error, house.wire("guess"):
        pass
    assert error.value.response.status_code == 401
    with pytest.raises(SowlineError) as refused, house.client("guess"):
        pass
    assert refused.value.reason == "auth failure"
    with house.client(TOKENS["ada"]) as client:
        assert client.rights is not None
        assert records(client, house.topic)


def test_a_logon_by_the_first_command(house: House) -> None:
    """As browsers do; what is asked before is refused, and who never logs on is sent away."""
    with house.wire() as wire:
        assert wire.fail("sow", topic=house.topic)["reason"] == "logon required"
        wire.send("logon", token="guess")
        assert wire.receive()["reason"] == "auth failure"
        wire.send("logon", token=TOKENS["ada"])
        answer = wire.receive()
        assert (answer["status"], answer["user"], answer["roles"]) == ("success", "ada", ["desk"])
        wire.send("sow", topic=house.topic)
        assert wire.group()
        wire.send("logon", token=TOKENS["root"])
        assert wire.receive()["reason"] == "rights changed"
    with house.wire() as wire, pytest.raises(ConnectionClosed) as closed:
        wire.receive()
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason[:14]) == (1008, "logon required")


def test_tokens_of_an_issuer(house: House) -> None:
    """Its keys are fetched once, and again when a token names a new one."""
    with house.client(house.issuer.token("eve", "desk", "unknown")) as client:
        assert records(client, house.topic)
    asked = house.issuer.asked
    house.issuer.rotate()
    with house.client(house.issuer.token("eve", "desk")) as client:
        assert records(client, house.topic)
    assert house.issuer.asked == asked + 1


@pytest.mark.long
def test_an_issuer_that_changes_its_keys_and_goes_away(house: House, tmp_path: Path) -> None:
    """Over the life of one service: anyone who is connected stays, and known keys go on while it is away."""

    def let_in(token: str) -> bool:
        return bool(ask(f"{query.url}/v1/topics", token)[0] == 200)

    with issuer() as other:
        write_access(tmp_path / "access.yaml", other)
        other.garbage = b"<html>"
        query = house.system.service("query_service", access=tmp_path / "access.yaml").start().wait_ready()
        first = other.token("ada", "desk")
        assert ask(f"{query.url}/v1/topics", first)[1]["reason"] == "auth unavailable"
        assert let_in(TOKENS["ada"])
        other.garbage = None
        wait_for(lambda: let_in(first), "the keys to be fetched")
        with Client(query.url, token=lambda: other.token("ada", "desk")) as client:
            messages = client.subscribe(house.topic, filter="/n = 2")
            other.rotate(keep=True)
            second = other.token("ada", "desk")
            wait_for(lambda: let_in(second), "the new key to be known")
            assert let_in(first)
            other.status, asked = 503, other.asked
            with ThreadPoolExecutor(20) as pool:
                flood = pool.map(let_in, (other.token("eve", kid=f"k{n}") for n in range(40)))
                assert let_in(second)
                assert not any(flood)
            assert other.asked - asked < 20
            assert let_in(second)
            other.rotate()
            other.status = 200
            third = other.token("ada", "desk")
            wait_for(lambda: let_in(third), "the next key to be known")
            assert [let_in(token) for token in (first, second)] == [False, False]
            house.system.write(house.topic, {"id": 1, "desk": "a", "n": 2})
            assert next(messages).data["n"] == 2
        assert query.stop() == 0
    entries = [json.loads(line) for line in query.log.splitlines()]
    assert {"keys fetched", "keys not fetched"} <= {line["event"] for line in entries}
    assert {line["why"] for line in entries if line["event"] == "logon refused"} == {"unknown key"}


def test_a_connection_ends_with_its_token(house: House) -> None:
    """Unless it is renewed: a client whose token is a function does that, over the same connection."""
    given: list[str] = []

    def token() -> str:
        given.append(house.issuer.token("eve", "desk", seconds=3))
        return given[-1]

    before = house.query.metric("sowline_logons_refused_total")
    with house.client(token) as client, house.wire(given[0]) as wire:
        messages = client.subscribe(house.topic, filter="/n = 1")
        with pytest.raises(ConnectionClosed) as closed:
            wire.receive()
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason[:13]) == (1008, "logon expired")
        assert len(given) == 2
        house.system.write(house.topic, {"id": 1, "desk": "a", "n": 1})
        assert next(messages).data["n"] == 1
        assert len(given) == 2
    assert house.query.metric("sowline_logons_refused_total") == before


def test_other_rights_begin_afresh(house: House) -> None:
    """Whose rights change comes back by itself, and what may no longer be read leaves its view; others stay."""
    gone: list[str] = []

    def remember(key: str, record: dict[str, Any], reason: str) -> None:
        gone.append(record["desk"])

    with house.client(TOKENS["root"]) as other, house.client(TOKENS["moved"]) as client:
        others = other.subscribe(house.topic, filter="/id = 3")
        with client.local_view(house.topic, on_remove=remember) as view:
            assert {record["desk"] for record in view.values()} == {"a"}
            before = client.rights
            house.write(ROLES | {"moved": {"read": [{"topics": "^.*", "filter": "/desk = 'b'"}]}})
            wait_for(lambda: {record["desk"] for record in view.values()} == {"b"}, "the other desk's record")
            assert (gone, client.rights != before) == (["a"], True)
        house.system.write(house.topic, {"id": 3, "desk": "c"})
        first = next(others)
        assert (first.command, first.data["id"]) == ("publish", 3)


def test_what_may_not_be_seen_never_comes(house: House) -> None:
    """Of another desk's records; one that goes to it leaves as it was. Nor may they be written."""
    path = f"/v1/topics/{house.topic}"
    assert house.ask(f"{path}/records/2", TOKENS["ada"])[0] == 404
    with house.wire(TOKENS["ada"]) as ada:
        ada.send("sow_and_subscribe", topic=house.topic, filter="/id > 6", options="oof", sub_id="s")
        ada.group()
        for record in (
            {"id": 7, "desk": "b", "n": 1},
            {"id": 8, "desk": "a", "n": 1},
            {"id": 8, "desk": "b", "n": 2},
        ):
            status, _ = house.ask(
                f"{path}/publish?ack=processed", TOKENS["root"], json.dumps(record).encode()
            )
            assert status == 200
        received = [ada.receive() for _ in range(2)]
        assert [(m["command"], m.get("reason"), m["data"]) for m in received] == [
            ("publish", None, {"id": 8, "desk": "a", "n": 1}),
            ("oof", "entitlement", {"id": 8, "desk": "a", "n": 1}),
        ]
    assert house.ask(f"{path}/records/1", TOKENS["ada"])[0] == 200
    for asked, body, reason in [
        (f"{path}/records/8", None, "no record"),
        (f"{path}/publish", b'{"id":9,"desk":"a"}', "not entitled"),
        ("/v1/topics/other/sow", b"{}", "not entitled"),
        ("/v1/clients", None, "not entitled"),
    ]:
        status, answer = house.ask(asked, TOKENS["ada"], body)
        assert (status, answer["reason"]) == (404 if reason == "no record" else 403, reason)
    house.ask(f"{path}/sow_delete?filter=/id+IN+(7,8)&ack=processed", TOKENS["root"], b"")


def test_a_delete_counts_what_may_be_seen(house: House) -> None:
    """Its statistics do not tell how many records there are, to a role that may see some of them."""
    desk = {"topics": "^.*", "filter": "/desk = 'a'"}
    house.write(ROLES | {"counted": {"read": [desk], "write": [desk]}})
    path = f"/v1/topics/{house.topic}/sow_delete?filter=/id+%3D+99"
    wait_for(lambda: house.ask(path, TOKENS["counted"], b"")[0] == 200, "the access file to be taken")
    for user, is_any in (("counted", False), ("root", True)):
        with house.wire(TOKENS[user]) as wire:
            wire.send("sow_delete", topic=house.topic, filter="/id = 99", ack_type="stats")
            received = wire.receive()
            assert (received["records_deleted"], received["topic_matches"] > 0) == (0, is_any)


def test_a_client_does_not_choose_its_address(house: House, tmp_path: Path) -> None:
    """`X-Forwarded-For` counts for nothing by default: guesses of many addresses are slowed as those of one.

    The service is the test's own: those that come after them would be slowed in other tests.
    """
    write_access(tmp_path / "access.yaml", house.issuer)
    query = house.system.service("query_service", access=tmp_path / "access.yaml").start().wait_ready()
    for number in range(5):
        headers = {"X-Forwarded-For": f"10.0.0.{number}"}
        assert ask(f"{query.url}/v1/topics", "sow_guess", None, None, **headers)[0] == 401
    entries = [json.loads(line) for line in query.log.splitlines() if '"logon refused"' in line]
    assert [line["address"] for line in entries] == ["127.0.0.1"] * 5
    query.stop()


def test_a_trusted_proxy_names_the_address(house: House, tmp_path: Path) -> None:
    """Of several addresses in the header, the last that is no proxy's counts."""
    write_access(tmp_path / "access.yaml", house.issuer)
    settings = {"access": tmp_path / "access.yaml", "trusted_proxies": "127.0.0.0/8, 10.1.0.0/16"}
    query = house.system.service("query_service", **settings).start().wait_ready()
    headers = {"X-Forwarded-For": "10.9.9.9, 10.0.0.7, 10.1.2.3"}
    assert ask(f"{query.url}/v1/topics", "sow_guess", None, None, **headers)[0] == 401
    entries = [json.loads(line) for line in query.log.splitlines() if '"logon refused"' in line]
    assert [line["address"] for line in entries] == ["10.0.0.7"]
    query.stop()


def test_the_command_line(house: House, tmp_path: Path) -> None:
    """Brings a token from the environment or a file; without one it says so in one sentence."""
    (tmp_path / "token").write_text(TOKENS["root"] + "\n")
    run = CliRunner().invoke
    url = ["--url", house.query.url]
    refused = run(main, ["topics", *url])
    assert (refused.exit_code, refused.output.partition(":")[0]) == (1, "logon required")
    table = run(main, ["top", "--once", "--every", "0.1", *url], env={"SOWLINE_TOKEN": TOKENS["root"]})
    assert house.topic in table.output
    given = [*url, "--token-file", str(tmp_path / "token")]
    done = subprocess.run(
        [sys.executable, "-m", "sowline", "topics", *given], cwd=ROOT, capture_output=True, text=True
    )
    assert (json.loads(done.stdout)["name"], done.stderr) == (house.topic, "")


def test_a_certificate_is_a_logon(house: House, secured: Secured) -> None:
    """Over TLS, by WebSocket and HTTP; without one, or with one of a stranger, there is none."""
    with secured.client("root") as client:
        assert records(client, house.topic)
        assert client.topics()["topics"]
    with pytest.raises(SowlineError) as error, Client(secured.url, ca_file=secured.authority.file) as client:
        client.topics()
    assert error.value.reason == "logon required"
    with pytest.raises(SowlineError) as error, Client(secured.url):
        pass
    assert (error.value.reason, "CERTIFICATE_VERIFY_FAILED" in error.value.message) == ("not connected", True)
    pem = str(secured.authority.vouch("root"))
    options = ["--ca-file", str(secured.authority.file), "--cert-file", pem, "--key-file", pem]
    table = CliRunner().invoke(main, ["top", "--once", "--every", "0.1", "--url", secured.url, *options])
    assert house.topic in table.output


def test_a_new_certificate_is_taken(house: House, secured: Secured) -> None:
    """By the next connection; those that are there go on."""

    def serial() -> str:
        plain = socket.create_connection(("127.0.0.1", secured.query.port))
        with plain, secured.trusted.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
            return str((connection.getpeercert() or {})["serialNumber"])

    with secured.client("root") as client:
        messages, before = client.subscribe(house.topic, filter="/id = 4"), serial()
        secured.authority.vouch("service")
        wait_for(lambda: serial() != before, "the new certificate")
        house.system.write(house.topic, {"id": 4, "desk": "c"})
        assert next(messages).data["id"] == 4
        assert "certificate taken" in secured.query.log


def test_pages_from_elsewhere(house: House, secured: Secured) -> None:
    """They are refused with a code and a reason that scripts can read; those of a named origin are not."""
    with (
        house.wire(TOKENS["root"], Origin="https://evil.example") as refused,
        pytest.raises(ConnectionClosed) as end,
    ):
        refused.heartbeat()
    assert end.value.rcvd is not None
    assert (end.value.rcvd.code, end.value.rcvd.reason[:14]) == (4403, "origin refused")
    assert house.query.log.count('"origin refused"') == 1
    own = house.query.url
    with house.wire(TOKENS["root"], Origin=own) as wire:
        assert wire.heartbeat() == []
    path = f"/v1/topics/{house.topic}/publish"
    status, answer = house.ask(path, TOKENS["root"], b'{"id": 9}', Origin="null")
    assert (status, answer["reason"]) == (403, "origin refused")
    assert house.query.metric("sowline_origins_refused_total") == 2
    headers = {"Authorization": f"Bearer {TOKENS['root']}", "Origin": PAGE}
    url = secured.url.replace("https", "wss") + "/v1"
    with connect(url, ssl=secured.trusted, additional_headers=headers) as connection:
        assert Wire(connection).heartbeat() == []


def test_too_many_commands(house: House, secured: Secured) -> None:
    """Are read more slowly, and all done: of one frame with more than a second's worth too."""
    headers = {"Authorization": f"Bearer {TOKENS['bob']}"}
    with connect(
        secured.url.replace("https", "wss") + "/v1", ssl=secured.trusted, additional_headers=headers
    ) as connection:
        wire = Wire(connection)
        wire.send_text(json.dumps([{"command": "heartbeat", "command_id": str(n)} for n in range(25)]))
        assert wire.heartbeat()[-1]["command_id"] == "24"
    assert (
        "sowline_commands_slowed_total 0.0" not in ask(f"{secured.url}/metrics", context=secured.trusted)[1]
    )


def test_the_pages(
    house: House,
    secured: Secured,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """What security.md, client.md and api.md show of logging on does as they show."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "token"
    file.write_text(TOKENS["ada"])
    Path("ca.pem").write_bytes(secured.authority.file.read_bytes())
    here = {"https://sow.example:8080": secured.url, "~/.config/sowline/token": str(file)}
    here |= {"/run/secrets/token": str(file), "$ sowline": f"$ {sys.executable} -m sowline"}

    def shown(page: str) -> list[str]:
        texts = [one.text for one in blocks_of(f"docs/{page}") if one.elsewhere.endswith("::test_the_pages")]
        for there, instead in here.items():
            texts = [text.replace(there, instead) for text in texts]
        return texts

    given = {"PYTHONPATH": str(ROOT), "SOWLINE_URL": house.query.url}
    for text, token in zip(shown("security.md"), ({}, {"SOWLINE_TOKEN": TOKENS["ada"]}), strict=True):
        script = re.sub(r"^\$ ", "", text, flags=re.MULTILINE)
        done = subprocess.run(
            ["sh", "-ec", script], env={**os.environ, **given, **token}, capture_output=True
        )
        assert house.topic in done.stdout.decode(), done.stderr
    (script,) = shown("client.md")
    exec(script, {"Client": Client})
    assert re.fullmatch("[0-9a-f]{16}\n", capfd.readouterr().out)
    (messages,) = shown("api.md")
    request, answer = (json.loads("{" + text) for text in f"\n{messages}".split("\n{")[1:])
    with house.wire() as wire:
        wire.send_text(json.dumps(request | {"token": house.issuer.token("ada", "desk")}))
        came = wire.receive()
    assert came.keys() == answer.keys()
    assert {**came, "rights": "", "expires_in": 0} == {**answer, "rights": "", "expires_in": 0}


def test_no_secret_comes_out(house: House, secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    """In no log, answer, metric, error or finding, whatever failed."""
    monkeypatch.setattr(doctor_kafka, "ANSWER_SECONDS_MAX", 1.0)
    texts = [*failures(house, secured)]
    texts.append(str(ask(f"{secured.url}/metrics", context=secured.trusted)))
    texts += [http_text(f"{house.query.url}/metrics"), house.query.log, secured.query.log]
    assert leaks(house, secured, texts) == []


def test_an_event_stream_has_the_rights_of_its_user(house: House) -> None:
    """It asks for a token, shows what that user may see, and ends with the reason where the rights change."""
    path = f"/v1/topics/{house.topic}/subscribe?command=sow_and_subscribe"
    assert house.ask(path)[1]["reason"] == "logon required"
    token = TOKENS["streamed"]
    assert house.ask(f"/v1/topics/{house.topic}2/subscribe", token)[1]["reason"] == "invalid topic"
    status, events = house.ask(f"{path}&up_to=now", token)
    assert status == 200
    assert '"desk":"a"' in events
    assert '"desk":"b"' not in events
    asked = Request(f"{house.query.url}{path}", headers={"Authorization": f"Bearer {token}"})
    with urlopen(asked, timeout=SECONDS_MAX) as answer:
        assert answer.headers["Sowline-Rights"]
        while not answer.readline().startswith(b"event: completed"):
            continue
        house.write(roles={**ROLES, "streamed": {"read": [{"topics": "^t.*", "filter": "/desk = 'b'"}]}})
        rest = answer.read().decode()
    assert "event: failure\nid: \n" in rest
    assert '"reason":"rights changed"' in rest
