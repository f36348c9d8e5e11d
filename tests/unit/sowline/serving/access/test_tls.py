"""TLS at the APIs: what clients get, whose certificates count, and new files without a restart."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sowline.config.credentials import Credentials
from sowline.config.settings import Settings
from sowline.errors import SowlineError
from sowline.serving.access.tls import Tls, TlsFiles, tls_of
from tests.integration.certificates import Authority

Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Listening:
    """A server with TLS, which says whose certificate a client brought."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def ask(self, authority: Path, certificate: Path | None = None, **versions: Any) -> tuple[str, int]:
        """Connect; return what the server says of this client, and the serial number of its own certificate."""
        context = Credentials(None, authority, certificate).tls()
        for name, version in versions.items():
            setattr(context, name, version)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=context)
        try:
            user = (await reader.read()).decode()
            if not user:
                raise ConnectionError("the server has closed the connection without a word")
            return user, int(writer.get_extra_info("peercert")["serialNumber"], 16)
        finally:
            writer.close()


@asynccontextmanager
async def listening(tls: Tls) -> AsyncIterator[Listening]:
    """Lend a server."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        certificate = writer.get_extra_info("peercert")
        writer.write(certificate["subject"][0][0][1].encode() if certificate else b"nobody")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=tls.context)
    async with server:
        yield Listening(server.sockets[0].getsockname()[1])


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """One that vouches for the service."""
    return Authority(tmp_path / "one")


async def test_a_client_with_and_without_a_certificate(authority: Authority, tmp_path: Path) -> None:
    """One of the authority is named; another does not come in; without one it is nobody that TLS knows."""
    own, ada = authority.vouch("service"), authority.vouch("ada")
    strangers = Authority(tmp_path / "two")
    async with listening(Tls(TlsFiles(own, own, authority.file))) as server:
        assert (await server.ask(authority.file, ada))[0] == "ada"
        assert (await server.ask(authority.file))[0] == "nobody"
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await server.ask(authority.file, strangers.vouch("eve"))
        with pytest.raises(ssl.SSLError):
            await server.ask(strangers.file)
        old: dict[str, Any] = {
            "minimum_version": ssl.TLSVersion.TLSv1,
            "maximum_version": ssl.TLSVersion.TLSv1_1,
        }
        with pytest.warns(DeprecationWarning, match="TLSv1"), pytest.raises((ssl.SSLError, ConnectionError)):
            await server.ask(authority.file, **old)


async def test_new_files_are_taken(authority: Authority, tmp_path: Path) -> None:
    """A certificate of its own, and another authority of clients: the previous one counts no more."""
    own, ada = authority.vouch("service"), authority.vouch("ada")
    others = Authority(tmp_path / "two")
    clients = tmp_path / "clients.pem"
    clients.write_bytes(authority.file.read_bytes())
    tls = Tls(TlsFiles(own, own, clients))
    async with listening(tls) as server:
        _, before = await server.ask(authority.file, ada)
        tls.look()
        assert (await server.ask(authority.file, ada)) == ("ada", before)
        authority.vouch("service")
        clients.write_bytes(others.file.read_bytes() + b"\n")
        tls.look()
        user, now = await server.ask(authority.file, others.vouch("bob"))
        assert (user, now != before) == ("bob", True)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await server.ask(authority.file, ada)


async def test_files_that_do_not_fit_are_not(authority: Authority) -> None:
    """The previous ones stay in use until there are some that do."""
    own = authority.vouch("service")
    tls = Tls(TlsFiles(own, own))
    async with listening(tls) as server:
        own.write_text("nonsense")
        for _ in range(2):
            tls.look()
            assert tls.is_stale
        own.unlink()
        tls.look()
        assert (await server.ask(authority.file))[0] == "nobody"
        authority.vouch("service")
        tls.look()
        assert not tls.is_stale
        assert 0 < tls.expires - time.time() < 2 * 86400


def test_settings_that_do_not_fit(authority: Authority, tmp_path: Path) -> None:
    """Stop the service at its start."""
    own = str(authority.vouch("service"))
    assert tls_of(Settings()) is None
    wrong: list[dict[str, Any]] = [
        {"tls_key": own},
        {"tls_cert": str(tmp_path / "none.pem")},
        {"tls_cert": str(authority.file)},
        {"tls_cert": own, "tls_client_required": True},
    ]
    for given in wrong:
        with pytest.raises(SowlineError) as error:
            tls_of(Settings(**given))
        assert error.value.reason == "bad configuration"
