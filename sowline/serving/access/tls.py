"""TLS: its certificate, the accepted client certificates, and taking new files without disconnecting clients."""

import asyncio
import ssl
from pathlib import Path
from typing import NamedTuple

import structlog
from cryptography import x509

from sowline.config.settings import Settings
from sowline.errors import SowlineError
from sowline.runtime.http_server import HttpProtocol
from sowline.runtime.watched_file import Stamp, stamp_of
from sowline.serving.access.watched_access import LOOK_SECONDS

log = structlog.get_logger()

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""The cipher suites for TLS 1.2. TLS 1.3 has only secure suites, so they are not restricted."""


class TlsFiles(NamedTuple):
    """PEM files: the service's certificate chain, its key, and the authority of client certificates."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


class Tls:
    """The TLS context of new connections. Open connections keep the context that they started with."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._stamps = self._stamps_now()
        self._inner = _context(files)
        self.expires = _end_of(files.certificate)
        """When the certificate in use expires, in seconds since 1970."""
        self.is_stale = False
        """Whether the current files can't be used."""
        self.context = _context(files)
        """The context to listen with. Each handshake switches to the newest context."""
        self.context.sni_callback = self._use_newest

    def _use_newest(self, connection: ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        connection.context = self._inner

    async def watch(self) -> None:
        """Take new files when they appear, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await asyncio.to_thread(self.look)

    def look(self) -> None:
        """Take the files if they have changed and fit together; keep the previous ones otherwise."""
        try:
            stamps = self._stamps_now()
            if stamps == self._stamps:
                return
            # Before the files are read: one that changes during that has another stamp at the next look.
            self._stamps = stamps
            self._inner = _context(self._files)
            self.expires = _end_of(self._files.certificate)
        except SowlineError as error:
            if not self.is_stale:
                log.error("certificate not taken", why=error.message)
            self.is_stale = True
            return
        self.is_stale = False
        log.info("certificate taken", path=str(self._files.certificate))

    def _stamps_now(self) -> tuple[Stamp, ...]:
        return tuple(stamp_of(path, "a certificate or key") for path in self._files if path is not None)


def _context(files: TlsFiles) -> ssl.SSLContext:
    """Return a context without session resumption, so that each connection checks the client's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    context.set_alpn_protocols(["http/1.1"])
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    try:
        # Without the function, OpenSSL asks for a password at the terminal, and the service never starts.
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
        # Optional here even if required: a failed handshake has no reason, and the middleware answers with one
        # (test_a_certificate_that_is_required).
        if files.client_ca is not None:
            context.verify_mode = ssl.CERT_OPTIONAL
            context.load_verify_locations(files.client_ca)
    except (OSError, ValueError) as error:
        named = ", ".join(str(path) for path in files if path is not None)
        raise SowlineError(
            "bad configuration",
            f"expected a certificate, its key without a password, and maybe an authority, in {named}: {error}",
        ) from None
    return context


def _end_of(path: Path) -> float:
    """Return when the first certificate in a file expires, in seconds since 1970."""
    try:
        first, *_ = x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError) as error:
        raise SowlineError("bad configuration", f"expected a certificate in {path}: {error}") from None
    return first.not_valid_after_utc.timestamp()


def _no_password() -> str:
    raise ValueError("the key has a password")


def tls_of(settings: Settings) -> Tls | None:
    """Return the TLS context for the settings, None for plain HTTP; raise `bad configuration`."""
    if not settings.tls_cert:
        if settings.tls_key or settings.tls_client_ca or settings.tls_client_required:
            raise SowlineError(
                "bad configuration",
                "expected SOWLINE_TLS_CERT with the other settings of TLS, got these without it",
            )
        return None
    if settings.tls_client_required and not settings.tls_client_ca:
        raise SowlineError(
            "bad configuration", "expected SOWLINE_TLS_CLIENT_CA where client certificates are required"
        )
    for name in ("tls_cert", "tls_key", "tls_client_ca"):
        if "-----" in getattr(settings, name):
            variable = f"SOWLINE_{name.upper()}"
            raise SowlineError(
                "bad configuration", f"expected the path of a PEM file in {variable}, got its content"
            )
    client_ca = Path(settings.tls_client_ca) if settings.tls_client_ca else None
    key = Path(settings.tls_key or settings.tls_cert)
    return Tls(TlsFiles(Path(settings.tls_cert), key, client_ca))


class Certified(HttpProtocol):
    """HTTP connections that put the verified client certificate into `scope["state"]`.

    A connection that becomes a WebSocket keeps that state.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the connection; the TLS handshake is complete."""
        super().connection_made(transport)
        if certificate := transport.get_extra_info("peercert"):
            self.app_state = {**self.app_state, "certificate": certificate}
