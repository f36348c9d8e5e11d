"""A broker of our own that lets in nobody without TLS and a password, and allows what docs/platforms.md asks for."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from sowline.runtime.local_kafka import LocalKafka
from sowline.runtime.ports import HOST, free_port

USER = "desk"
PASSWORD = "a password, with = and a comma"

_SECURED = """
listeners=PLAINTEXT://127.0.0.1:@BROKER@,SECURED://127.0.0.1:@SECURED@,CONTROLLER://127.0.0.1:@CONTROLLER@
advertised.listeners=PLAINTEXT://127.0.0.1:@BROKER@,SECURED://127.0.0.1:@SECURED@,CONTROLLER://127.0.0.1:@CONTROLLER@
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL
listener.name.secured.ssl.keystore.type=PEM
listener.name.secured.ssl.keystore.location=@KEYSTORE@
listener.name.secured.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.secured.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
"""

_ALLOWED = {
    ResourceType.TOPIC: (
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.ALTER_CONFIGS,
        AclOperation.READ,
        AclOperation.WRITE,
    ),
    ResourceType.GROUP: (AclOperation.READ, AclOperation.DESCRIBE),
}
"""All that the table of permissions names, and nothing on the cluster."""


class Secured(NamedTuple):
    """Where the broker is for those who have the password, and what they must say."""

    bootstrap: str
    options: dict[str, str]
    plain: str
    """Where it lets in its operator, who may do everything."""

    @contextmanager
    def denying(self, topic: str, operation: AclOperation) -> Iterator[None]:
        """Deny the user a right on a topic during the block."""
        admin = AdminClient({"bootstrap.servers": self.plain})
        about = (ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, f"User:{USER}", "*", operation)
        for bound in admin.create_acls([AclBinding(*about, AclPermissionType.DENY)]).values():
            bound.result(30)
        try:
            yield
        finally:
            for gone in admin.delete_acls([AclBindingFilter(*about, AclPermissionType.DENY)]).values():
                gone.result(30)


class _SecuredKafka(LocalKafka):
    """Its plain port is for its own start only."""

    def __init__(self, data_dir: Path, keystore: Path) -> None:
        super().__init__(data_dir)
        self.port = free_port()
        self._keystore = keystore

    def _write_config(self) -> None:
        super()._write_config()
        path = self.data_dir / "server.properties"
        lines = path.read_text().splitlines()
        kept = [line for line in lines if not line.startswith(("listeners=", "advertised.listeners="))]
        values: dict[str, Any] = {"SECURED": self.port, "KEYSTORE": self._keystore}
        values |= dict(zip(("BROKER", "CONTROLLER"), self._ports, strict=True))
        text = _SECURED
        for name, value in values.items():
            text = text.replace(f"@{name}@", str(value))
        path.write_text("\n".join(kept) + text)


@contextmanager
def secured_broker() -> Iterator[Secured]:
    """Lend one with a user."""
    directory = Path(tempfile.mkdtemp(prefix="sowline-secured-"))
    try:
        certificate = _make_certificate(directory)
        with _SecuredKafka(directory / "kafka", directory / "both.pem") as kafka:
            _make_user(kafka.bootstrap)
            options = {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": USER,
                "sasl.password": PASSWORD,
                "ssl.ca.location": str(certificate),
            }
            yield Secured(f"{HOST}:{kafka.port}", options, kafka.bootstrap)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _make_certificate(directory: Path) -> Path:
    """Make a key and a certificate of it that is its own authority; returns the certificate."""
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "rsa:2048",
                "-nodes",
                "-days",
                "1",
                "-subj",
                "/CN=sowline",
            ),
            *("-addext", f"subjectAltName=IP:{HOST}", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    (directory / "both.pem").write_text(key.read_text() + certificate.read_text())
    return certificate


def _make_user(bootstrap: str) -> None:
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    user = UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.alter_user_scram_credentials([user]).values():
        made.result(30)
    allowed = [
        AclBinding(
            kind, "*", ResourcePatternType.LITERAL, f"User:{USER}", "*", operation, AclPermissionType.ALLOW
        )
        for kind, operations in _ALLOWED.items()
        for operation in operations
    ]
    for bound in admin.create_acls(allowed).values():
        bound.result(30)
