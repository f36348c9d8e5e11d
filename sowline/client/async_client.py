"""The asynchronous client: queries and subscriptions over one WebSocket, commands straight to Kafka."""

import ssl
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from sowline.client.connection import ServiceConnection
from sowline.client.http_api import HttpClient
from sowline.client.open_streams import OpenStreams
from sowline.client.reading import RecordReading
from sowline.client.writing import Writing
from sowline.config.credentials import Credentials, Token
from sowline.errors import SowlineError


class AsyncClient(RecordReading, Writing):
    """A client of a query service. Use it as an async context manager.

    If the connection is lost, the client reconnects. Every subscription continues after the last message that its
    caller received, without a gap or a repeat. If the connection was lost within a group, the group is sent again: a
    `group_begin` always means that the whole group follows.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        *,
        kafka: str | None = None,
        kafka_options: Mapping[str, str] | None = None,
        publisher: str | None = None,
        token: Token | None = None,
        ca_file: str | Path | None = None,
        cert_file: str | Path | None = None,
        key_file: str | Path | None = None,
    ) -> None:
        super().__init__(kafka, kafka_options, publisher)
        self._url = url.rstrip("/")
        self._credentials = Credentials(token, ca_file, cert_file, key_file)
        self._http = HttpClient(self._url, self._credentials, lambda: self._tls)
        self._streams = OpenStreams()
        self._connection = ServiceConnection(self._url, self._credentials, lambda: self._tls, self._streams)
        self._streams.connection = self._connection

    async def __aenter__(self) -> Self:
        self._http.check_open()
        await self._connection.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Flush all publishes, and close the connection with all its streams."""
        # Before the flush: a command that came after it might never be written
        # (test_a_closed_client_takes_no_commands).
        self._http.send_no_more()
        try:
            await self._flush()
        finally:
            # Also after `not written`: the reader would reconnect forever.
            self._streams.fail(SowlineError("disconnected", "the client was closed"))
            await self._connection.close()
            await self._http.close()

    @property
    def rights(self) -> str | None:
        """The name of this client's rights: equal names, equal rights. None if the service does not send one."""
        return self._connection.rights

    @cached_property
    def _tls(self) -> ssl.SSLContext | None:
        """The TLS options that verify the service; None without TLS."""
        return self._credentials.tls() if self._url.startswith(("https://", "wss://")) else None
