"""Asks nodes over HTTP: for their announcements, or with the rights of a client."""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

import anyio
import httpx2
import orjson

from sowline.config.credentials import Credentials
from sowline.config.proxies import direct, via
from sowline.errors import SowlineError
from sowline.serving.authorization.delegation import headers_of
from sowline.serving.authorization.entitlements import Rights
from sowline_gateway.nodes.connections import NodeLost

PASSED = ("content-type", "sowline-bookmark", "sowline-lag-seconds", "sowline-warning", "retry-after")
"""Headers of a node's answer that the client gets."""

ANSWER_SECONDS_MAX = 60.0
IDLE_SECONDS_MAX = 2.0


class NodeAnswer(NamedTuple):
    """The answer of a node."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def is_refusal(self) -> bool:
        """Whether it is an error."""
        return self.status != 200

    @property
    def error(self) -> SowlineError:
        """The error in a refusal."""
        try:
            found = orjson.loads(self.body)
            return SowlineError(found["reason"], found["message"])
        except (ValueError, LookupError, TypeError):
            return SowlineError("internal", f"a query service answered with status {self.status}")


class NodeHttp:
    """An HTTP client of all nodes."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._client: httpx2.AsyncClient | None = None

    async def ask_announcement(self, url: str, seconds_max: float) -> bytes:
        """Return the topics that a node announces, as JSON; raise `NodeLost`, or why the node refuses."""
        # Nodes are asked for it all the time: so other requests have a fresh token without reading its file again.
        headers = list((await self._credentials.headers(fresh=True)).items())
        answer = await self._get(url, "/v1/topics", headers, seconds_max)
        if answer.is_refusal:
            raise answer.error
        return answer.body

    async def get(self, url: str, path: str, query: str, rights: Rights) -> NodeAnswer:
        """Return a node's answer to a GET with these rights, whatever its status; raise `NodeLost`."""
        headers = [*(await self._credentials.headers()).items(), *headers_of(rights)]
        return await self._get(url, f"{path}{'?' if query else ''}{query}", headers, ANSWER_SECONDS_MAX)

    async def _get(
        self, url: str, path: str, headers: list[tuple[str, str]], seconds_max: float
    ) -> NodeAnswer:
        scope = anyio.CancelScope()
        request = asyncio.get_running_loop().create_task(
            self._response(scope, f"{url}{path}", headers, seconds_max)
        )
        try:
            answer = await asyncio.shield(request)
        except asyncio.CancelledError:
            # The HTTP client protects its clean-up from its own library's cancellation only: a task's would leave
            # connections open that it was about to close.
            scope.cancel()
            await asyncio.wait([request])
            raise
        except httpx2.HTTPError as error:
            raise NodeLost(f"{url}: {error!r}{via(url)}") from error
        passed = {name: text for name in PASSED if (text := answer.headers.get(name)) is not None}
        return NodeAnswer(answer.status_code, answer.content, passed)

    async def _response(
        self, scope: anyio.CancelScope, url: str, headers: list[tuple[str, str]], seconds_max: float
    ) -> httpx2.Response:
        with scope:
            return await self._of(url).get(url, headers=headers, timeout=seconds_max)
        raise asyncio.CancelledError

    def _of(self, url: str) -> httpx2.AsyncClient:
        if self._client is None:
            limits = httpx2.Limits(max_connections=None, keepalive_expiry=IDLE_SECONDS_MAX)
            tls = self._credentials.tls() if url.startswith("https:") else True
            self._client = httpx2.AsyncClient(limits=limits, verify=tls, mounts=direct(url)["mounts"])
        return self._client

    async def close(self) -> None:
        """End the connections."""
        if self._client is not None:
            await self._client.aclose()
