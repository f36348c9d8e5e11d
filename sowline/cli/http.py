"""HTTP requests of commands to services: one GET at a time, with limits of time and bytes."""

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2
import orjson

from sowline.cli.connection import ConnectionOptions
from sowline.client.absence import no_answer
from sowline.config.proxies import direct, via
from sowline.errors import SowlineError

ANSWER_SECONDS_MAX = 5.0
BYTES_MAX = 64 << 20
REDIRECTS_MAX = 10


class HttpAnswer(NamedTuple):
    """An answer: its status, its headers in lower case, and its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def sentence(self) -> str:
        """The message of a health endpoint; empty if there is none."""
        return self.field("message")

    def field(self, name: str) -> str:
        """Return a field of the JSON object that is the body; empty if there is none."""
        try:
            answer = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return ""
        return str(answer.get(name, "")) if isinstance(answer, dict) else ""


_PLAIN = ConnectionOptions()
"""Without credentials; its TLS context is made once."""


def get(url: str, connection: ConnectionOptions = _PLAIN) -> HttpAnswer:
    """Send a GET; raise `not connected` if there is no service, `request timeout` if it takes too long to answer, and
    `bad request` if the URL is invalid.

    The token is sent only to the API of records, and never to an address of a redirect.
    """
    if not url.startswith(("http://", "https://")):
        raise SowlineError("bad request", f"expected a URL like http://127.0.0.1:8080, got {url!r}")
    # Uncompressed, so that the limit of bytes holds for what is kept in memory.
    headers = {"Accept-Encoding": "identity"}
    if urlsplit(url).path.startswith("/v1/") and (token := connection.read_token()):
        headers["Authorization"] = f"Bearer {token}"
    verify = connection.tls if url.startswith("https://") else _PLAIN.tls
    try:
        with httpx2.Client(timeout=ANSWER_SECONDS_MAX, verify=verify, **direct(url)) as client:
            return _follow(client, client.build_request("GET", url, headers=headers))
    except (httpx2.HTTPError, httpx2.InvalidURL, ImportError, OSError, ValueError) as error:
        raise no_answer("a service", url, error) from error


def _follow(client: httpx2.Client, request: httpx2.Request) -> HttpAnswer:
    """Return the answer to a request, or to the request that it redirects to, without the token."""
    for _ in range(REDIRECTS_MAX):
        response = client.send(request, stream=True)
        try:
            if response.next_request is None:
                return HttpAnswer(response.status_code, response.headers, _body(response))
            request = response.next_request
            request.headers.pop("Authorization", None)
        finally:
            response.close()
    raise httpx2.TooManyRedirects(f"more than {REDIRECTS_MAX} redirects", request=request)


def _body(response: httpx2.Response) -> bytes:
    """Read a body up to the limit, and ignore the rest."""
    body = bytearray()
    for chunk in response.iter_raw():
        body += chunk
        if len(body) >= BYTES_MAX:
            break
    return bytes(body[:BYTES_MAX])


def get_json(url: str, connection: ConnectionOptions) -> Any:
    """Return a query service's answer to a GET; raise its refusal, or `not connected`."""
    answer = get(url, connection)
    try:
        content = orjson.loads(answer.body)
    except orjson.JSONDecodeError:
        content = {}
    if answer.status != 200:
        # A proxy may answer with JSON that is no object.
        refusal = content if isinstance(content, dict) else {}
        message = refusal.get("message", f"expected an answer at {url}, got status {answer.status}{via(url)}")
        raise SowlineError(refusal.get("reason", "not connected"), message)
    return content


def served_topics(answer: HttpAnswer) -> tuple[Mapping[str, Any], ...] | None:
    """Return a query service's answer about its topics at `/v1/topics`; None if the answer is something else."""
    try:
        return tuple(orjson.loads(answer.body)["topics"]) if answer.status == 200 else None
    except (ValueError, LookupError, TypeError):
        return None
