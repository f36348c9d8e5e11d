"""The HTTP API of a query service as clients use it: one request, one answer."""

import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any
from urllib.parse import quote

import httpx2

from sowline.client.absence import CARRIED_OUT, no_answer
from sowline.client.connection import CONNECT_SECONDS_MAX
from sowline.config.credentials import Credentials
from sowline.config.proxies import direct, via
from sowline.errors import SowlineError
from sowline.model.exact_numbers import read_exact
from sowline.wire.media_types import ARROW

HTTP_SECONDS_MAX = 120.0
IDLE_SECONDS_MAX = 2.0
"""Seconds to keep an idle connection. The service closes it a little later, and it must not be used after that."""
READS = ("sow", "explain")
"""The commands that are sent with POST, and write nothing."""


class HttpClient:
    """Sends requests with the client's credentials; a token that is no longer valid is replaced once."""

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        tls: Callable[[], ssl.SSLContext | None],
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """Send requests to a URL; `transport` replaces the network within a service."""
        self._url = url
        self._credentials = credentials
        self._tls = tls
        self._transport = transport
        self._is_closed = False

    async def topics(self) -> dict[str, Any]:
        """Return the service's description of its topics."""
        return await self._request("GET", f"{self._url}/v1/topics", timeout=CONNECT_SECONDS_MAX)

    async def post(
        self, topic: str, command: str, given: Mapping[str, str], body: bytes | None, type: str = ""
    ) -> dict[str, Any]:
        """Send a command for a topic; raises the service's error."""
        url = f"{self._url}{topic_path(topic)}/{command}"
        headers = {"content-type": type} if type else {}
        return await self._request("POST", url, headers, params=dict(given), content=body)

    async def table(self, topic: str, asked: bytes) -> bytes:
        """Return the stream of a table; raises the service's error."""
        path, headers = f"{topic_path(topic)}/sow", {"accept": ARROW}
        async with self.open("POST", path, headers, content=asked) as response:
            return await response.aread()

    async def get_record(
        self, topic: str, key: str | int, resource: str = "", given: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Ask for a record, or for a resource below it; raises the service's error."""
        url = f"{self._url}{record_path(topic, key)}{resource}"
        return await self._request("GET", url, params=dict(given or {}))

    @asynccontextmanager
    async def open(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, **given: Any
    ) -> AsyncGenerator[httpx2.Response, None]:
        """Send a request, and return its response while it arrives; raises the service's error."""
        response = await self._send_authorized(
            method, f"{self._url}{path}", headers or {}, given, stream=True
        )
        try:
            if response.status_code != 200:
                await response.aread()
                _answer(response)
            yield response
        except httpx2.RequestError as error:
            raise self._unanswered(method, path, error) from error
        finally:
            await response.aclose()

    def check_open(self) -> None:
        """Raise `disconnected` if nothing more is sent."""
        if self._is_closed:
            raise SowlineError("disconnected", "the client was closed")

    def send_no_more(self) -> None:
        """Begin no further request; those on their way may still be answered."""
        self._is_closed = True

    async def close(self) -> None:
        """End the connections."""
        self.send_no_more()
        if "_http" in self.__dict__:
            await self._http.aclose()

    @cached_property
    def _http(self) -> httpx2.AsyncClient:
        """An HTTP client that keeps its connections, because creating one takes longer than most answers."""
        if self._transport is not None:
            return httpx2.AsyncClient(transport=self._transport)
        # Unlimited, because requests that wait for their effects could otherwise hold all connections.
        limits = httpx2.Limits(max_connections=None, keepalive_expiry=IDLE_SECONDS_MAX)
        return httpx2.AsyncClient(
            limits=limits, timeout=HTTP_SECONDS_MAX, verify=self._tls() or True, **direct(self._url)
        )

    async def _request(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, **given: Any
    ) -> dict[str, Any]:
        return _answer(await self._send_authorized(method, url, headers or {}, given))

    async def _send_authorized(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        given: Mapping[str, Any],
        *,
        stream: bool = False,
    ) -> httpx2.Response:
        own = {**headers, **await self._credentials.headers()}
        response = await self._send(method, url, own, given, stream=stream)
        # The token may have expired since the last request: try once more with a new one.
        if response.status_code == 401 and self._credentials.renews:
            await response.aclose()
            own |= await self._credentials.headers(fresh=True)
            response = await self._send(method, url, own, given, stream=stream)
        return response

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], given: Mapping[str, Any], *, stream: bool
    ) -> httpx2.Response:
        self.check_open()
        try:
            request = self._http.build_request(method, url, headers=headers, **given)
            return await self._http.send(request, stream=stream)
        except (httpx2.RequestError, httpx2.InvalidURL, ImportError) as error:
            raise self._unanswered(method, url, error) from error

    def _unanswered(self, method: str, url: str, error: Exception) -> SowlineError:
        """Return the error for a request that was not answered; the client's own end is not one of the service."""
        is_write = method == "POST" and url.rpartition("/")[2] not in READS
        if self._is_closed:
            what = f" before the service answered; {CARRIED_OUT}" if is_write else ""
            return SowlineError("disconnected", f"the client was closed{what}")
        return no_answer("a query service", self._url, error, is_write=is_write)


def topic_path(topic: str) -> str:
    """Return the path of a topic in a URL."""
    return f"/v1/topics/{quote(topic)}"


def record_path(topic: str, key: str | int) -> str:
    """Return the path of a record in a URL."""
    return f"{topic_path(topic)}/records/{_quoted(key)}"


def _answer(response: httpx2.Response) -> dict[str, Any]:
    """Return the answer of a service; raises the error that it sends instead."""
    try:
        answer = dict(read_exact(response.content))
    except (ValueError, TypeError):
        url = str(response.url)
        raise SowlineError(
            "not connected",
            f"expected a query service at {url}, got an answer that is not JSON, with status"
            f" {response.status_code}{via(url)}",
        ) from None
    if response.status_code != 200:
        message = f"expected a query service at {response.url}, got status {response.status_code}: {answer}"
        raise SowlineError(answer.get("reason", "not connected"), answer.get("message", message))
    return answer


def _quoted(key: str | int) -> str:
    """Return a key as a step of a URL's path; dots alone would mean the parent directory."""
    quoted = quote(str(key), safe="")
    return quoted.replace(".", "%2E") if quoted in (".", "..") else quoted
