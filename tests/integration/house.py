"""A house with rights: services that ask for tokens, an issuer of them, and the answers of those who are refused."""

import json
import os
import ssl
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import yaml
from click.testing import CliRunner
from websockets.sync.client import connect

from sowline import Client
from sowline.cli import main
from sowline.config.credentials import Credentials
from sowline.errors import SowlineError
from sowline.runtime.child_process import bound_to_parent
from tests.integration.certificates import Authority
from tests.integration.issuer import AUDIENCE, Issuer
from tests.integration.services import ROOT, Service, System, http_refusal, http_text
from tests.integration.wire import Wire
from tests.waiting import SECONDS_MAX, wait_for

LOGON_SECONDS = 1.0

PAGE = "https://desk.example"

PASSWORD = "a password of Kafka's"

CHANGING = ("moved", "counted", "streamed")
"""Users, each with a role of this name, which one test changes: all others keep theirs."""

TOKENS = {name: f"sow_{name}_{uuid.uuid4().hex}" for name in ("ada", "bob", "root", *CHANGING)}

ROLES: dict[str, Any] = {
    **{name: {"read": [{"topics": "^t.*", "filter": "/desk = 'a'"}]} for name in ("desk", *CHANGING)},
    "all": {"read": [{"topics": "^.*"}], "write": [{"topics": "^.*"}], "admin": True},
}


class House:
    """A materializer and a query service with an access file, which tests rewrite, and an issuer of tokens."""

    def __init__(self, made: System, query: Service, access: Path, topic: str, issuer: Issuer) -> None:
        self.system = made
        self.query = query
        self.topic = topic
        self.issuer = issuer
        self._access = access

    def write(self, roles: Mapping[str, Any] = ROLES, **sections: Any) -> None:
        """Write the access file."""
        write_access(self._access, self.issuer, roles, **sections)

    def client(self, token: Any) -> Client:
        """Return a client that brings this token."""
        return Client(self.query.url, token=token, kafka=self.system.kafka)

    @contextmanager
    def wire(self, token: str | None = None, **headers: str) -> Iterator[Wire]:
        """Lend a raw connection, with a token in its handshake or without."""
        headers |= {} if token is None else {"Authorization": f"Bearer {token}"}
        url = self.query.url.replace("http", "ws") + "/v1"
        with connect(url, additional_headers=headers, max_size=None) as connection:
            yield Wire(connection)

    def ask(self, path: str, token: str | None = None, body: bytes | None = None, **headers: str) -> Any:
        """Ask over HTTP; return the status and the answer."""
        return ask(f"{self.query.url}{path}", token, body, None, **headers)


def ask(
    url: str,
    token: str | None = None,
    body: bytes | None = None,
    context: ssl.SSLContext | None = None,
    **headers: str,
) -> Any:
    """Ask over HTTP; return the status and the answer, of a refusal as JSON."""
    given = headers | ({} if token is None else {"Authorization": f"Bearer {token}"})
    try:
        with urlopen(Request(url, body, given), timeout=SECONDS_MAX, context=context) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def write_access(path: Path, issuer: Issuer, roles: Mapping[str, Any] = ROLES, **sections: Any) -> None:
    """Write an access file in one step, as an operator should."""
    held = {"ada": ["desk"], "bob": ["desk"], "root": ["all"], **{name: [name] for name in CHANGING}}
    tokens = [
        {"user": user, "sha256": sha256(TOKENS[user].encode()).hexdigest(), "roles": mine}
        for user, mine in held.items()
    ]
    jwt = {"issuer": issuer.url, "audience": AUDIENCE, "jwks": f"{issuer.url}/keys", "leeway": 0}
    new = path.with_suffix(".new")
    new.write_text(yaml.safe_dump({"tokens": tokens, "jwt": jwt, "roles": dict(roles), **sections}))
    new.replace(path)


class Secured(NamedTuple):
    """A query service with TLS: where it is, the authority of all certificates, and the files that it reads."""

    url: str
    query: Service
    authority: Authority
    certificate: Path

    @property
    def trusted(self) -> ssl.SSLContext:
        """What a client of it goes by."""
        return Credentials(None, self.authority.file).tls()

    def client(self, user: str, **more: Any) -> Client:
        """Return a client that brings somebody's certificate."""
        file = self.authority.vouch(user)
        return Client(self.url, ca_file=self.authority.file, cert_file=file, key_file=file, **more)


def secured_service(house: House, directory: Path) -> Secured:
    """Start a service over the same topic, to which a certificate is what a token is to the other."""
    authority, access = Authority(directory / "pki"), directory / "access.yaml"
    certificate = authority.vouch("service")
    write_access(access, house.issuer, certificates={}, users={"ada": ["desk"], "root": ["all"]})
    files = {"tls_cert": certificate, "tls_client_ca": authority.file, "access": access}
    query = house.system.service("query_service", **files, origins=PAGE, commands_per_second_max=20).start()
    url = query.url.replace("http", "https")
    trusted = Credentials(None, authority.file).tls()

    def is_ready() -> bool:
        try:
            with urlopen(f"{url}/readyz", timeout=5, context=trusted) as answer:
                return bool(answer.status == 200)
        except OSError:
            assert query.running, query.log
            return False

    wait_for(is_ready, "the query service to be ready")
    return Secured(url, query, authority, certificate)


def records(client: Client, topic: str) -> list[int]:
    """Return the ids of the records that somebody finds."""
    return sorted(message.data["id"] for message in client.sow(topic) if message.command == "sow")


def failures(house: House, secured: Secured) -> Iterator[str]:
    """Let everything fail that can, with secrets in hand; yield all that is said about it."""
    token, trusted, own = TOKENS["root"], secured.trusted, secured.certificate.read_text()
    options = (
        f"security.protocol=SASL_PLAINTEXT,sasl.mechanism=PLAIN,sasl.username=u,sasl.password={PASSWORD}"
    )
    kafka = {"SOWLINE_KAFKA_OPTIONS": options, "SOWLINE_KAFKA": house.system.kafka}
    lost = house.system.service("query_service", kafka_options=options).start()
    broken = {"SOWLINE_KAFKA_OPTIONS": f'{{"sasl.password": "{PASSWORD}"'}
    pasted = {"SOWLINE_TLS_CERT": str(secured.certificate), "SOWLINE_TLS_KEY": own}
    config = {"SOWLINE_CONFIG": str(house.system.config)}
    ended = [started(given | config) for given in (broken, pasted)]
    topics, sow = f"{secured.url}/v1/topics", f"{secured.url}/v1/topics/{house.topic}/sow?token={token}"
    for wrong in (house.issuer.token("eve", seconds=-60), house.issuer.token("eve", aud=token)):
        yield str(ask(topics, wrong, context=trusted))
    with (
        pytest.raises(SowlineError) as refused,
        Client(secured.url, token=f"{token}x", ca_file=secured.authority.file),
    ):
        pass
    yield repr(refused.value)
    yield str(ask(topics, context=trusted, Authorization=f"Basic {token}"))
    yield str(ask(sow, body=token.encode(), context=trusted))
    yield str(ask(sow, token, token.encode(), context=trusted))
    headers = {"Authorization": f"Bearer {TOKENS['ada']}"}
    url = secured.url.replace("https", "wss") + "/v1"
    with connect(url, ssl=trusted, additional_headers=headers) as connection:
        wire = Wire(connection)
        for text in (
            f'{{"command": "logon", "token": ["{token}"]}}',
            f'{{"command": "logon", "token": "{token}"',
            f'{{"command": "logon", "token": "{token}"}}',
            f'{{"command": "logon", "token": "{token}x"}}',
            f'{{"command": "sow", "token": "{token}", "top_n": -1}}',
        ):
            wire.send_text(text)
            answer = wire.receive()
            assert answer["status"] == "failure"
            yield str(answer)

    log = len(house.query.log)
    house.write(roles={"desk": {"token": token}})
    wait_for(lambda: "access file not taken" in house.query.log[log:], "the file to be refused")
    house.write()
    secured.certificate.write_text(own[: len(own) // 3])
    wait_for(lambda: "certificate not taken" in secured.query.log, "the certificate to be refused")
    secured.certificate.write_text(own)

    options = (
        f"security.protocol=SASL_PLAINTEXT,sasl.mechanism=PLAIN,sasl.username=u,sasl.password={PASSWORD}"
    )
    kafka = {"SOWLINE_KAFKA_OPTIONS": options, "SOWLINE_KAFKA": house.system.kafka}
    lost = house.system.service("query_service", kafka_options=options).start()
    wait_for(lambda: "Kafka does not answer" in lost.log, "Kafka to refuse the password")
    yield lost.log + http_text(f"{lost.url}/metrics") + http_refusal(f"{lost.url}/readyz")
    for more in ({"SOWLINE_TOKEN": f"{token}\n{token}"}, {"SOWLINE_TOKEN": f"{token}x"}):
        doctor = ["doctor", "--url", house.query.url, "--url", lost.url, "--config", str(house.system.config)]
        done = CliRunner().invoke(main, doctor, env=kafka | more)
        yield done.output + repr(done.exception)
    for process in ended:
        yield process.communicate(timeout=SECONDS_MAX)[0]
        assert process.returncode == 1


def started(environment: Mapping[str, str]) -> "subprocess.Popen[str]":
    """Start a query service; all that it says goes to its output."""
    return subprocess.Popen(
        bound_to_parent([sys.executable, "-m", "sowline_query_service"]),
        env={**os.environ, **environment},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def leaks(house: House, secured: Secured, texts: list[str]) -> list[tuple[str, str]]:
    """Return each secret that is in a text, with that: tokens, the password of Kafka, and the service's key."""
    key = [line for line in secured.certificate.read_text().splitlines() if not line.startswith("-")][:2]
    signatures = [token.rpartition(".")[2] for token in house.issuer.given]
    secrets = [*TOKENS.values(), *signatures, PASSWORD, *key]
    return [(secret, text) for text in texts for secret in secrets if secret in text]
