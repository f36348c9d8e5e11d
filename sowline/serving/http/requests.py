"""The shared parts of handlers of HTTP requests: parameters, bodies, rights, and the headers of answers."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import orjson
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest

from sowline.errors import SowlineError
from sowline.model.body import why_not_json, write_body
from sowline.model.printable import printable
from sowline.serving.authorization.entitlements import NOT_ENTITLED, Entitlements, Rights
from sowline.serving.worker_thread import bytes_to_read, in_worker_thread
from sowline.wire.request import R
from sowline.wire.request_fields import QUERY_FIELDS, read_fields
from sowline.wire.request_parser import parse

NDJSON = "application/x-ndjson"
FRESHNESS = ("at_least", "max_staleness")
TIMELINE_PARAMETERS = ("bookmark", "up_to", "limit", "reversed", *FRESHNESS)
NUMBERS = ("top_n", "skip_n")
NUMBER_DIGITS_MAX = 18
"""Digits that 64 bits always hold."""

HEADER_CHARS_MAX = 2000
"""The longest text in a header. Clients read headers of at least 8 KiB."""


def require_admin(request: HttpRequest) -> None:
    """Raise `not entitled` unless the user is an administrator."""
    if not request.state.identity.rights.is_admin:
        raise SowlineError(NOT_ENTITLED, "expected a user with a role that has `admin`, got one without")


def path_of(request: HttpRequest) -> str:
    """Return the path of a request as it was sent, with its escapes."""
    return request.scope.get("raw_path", b"").decode("latin-1")  # type: ignore[no-any-return]


def rights_in(request: HttpRequest) -> Rights:
    """Return the rights of the user."""
    rights: Rights = request.state.identity.rights
    return rights


def readable_fields(read: Entitlements, topic: str) -> str | None:
    """Return the select list of the fields that the user may read in a topic; None for all or none."""
    select = read.of(topic).select if topic in read else None
    return None if select is None else select.text


def parameters_in(request: HttpRequest, accepted: Sequence[str]) -> dict[str, str]:
    """Return the query parameters; raise `bad request` for unknown ones."""
    given = dict(request.query_params)
    if unknown := given.keys() - set(accepted):
        raise SowlineError(
            "bad request", f"expected the parameters {', '.join(accepted)}, got {', '.join(sorted(unknown))}"
        )
    return given


def accepts(request: HttpRequest, media_type: str) -> bool:
    """Return whether a client asks for answers of this media type by name."""
    # Libraries add a weight, such as `;q=0.9`, and may write capitals (test_what_a_client_accepts).
    accepted = (part.partition(";")[0].strip() for part in request.headers.get("accept", "").split(","))
    return media_type in map(str.lower, accepted)


def number_in(text: str) -> int | str:
    """Return the whole number in a parameter. Any other text stays, and who reads the request refuses it."""
    # Python reads no number of more than 4300 digits, and the JSON encoder writes 64 bits.
    is_number = text.isascii() and text.isdecimal() and len(text) <= NUMBER_DIGITS_MAX
    return int(text) if is_number else text


async def sow_fields_in(request: HttpRequest, bytes_max: int, own: Sequence[str] = ()) -> dict[str, Any]:
    """Read the fields of a query from the URL and the JSON body; raise `bad request` for unknown ones.

    `own` are the fields that this kind of answer adds.
    """
    fields: dict[str, Any] = {
        name: number_in(text) if name in NUMBERS else text for name, text in request.query_params.items()
    }
    if body := await body_in(request, bytes_max):
        try:
            given = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise SowlineError(
                "bad request", why_not_json(body, error, "a JSON object as the body")
            ) from error
        if not isinstance(given, dict):
            raise SowlineError("bad request", f"expected a JSON object as the body, got {str(given)[:60]}")
        fields |= given
    if unknown := fields.keys() - {*QUERY_FIELDS, *own}:
        accepted = ", ".join((*QUERY_FIELDS, *own))
        raise SowlineError("bad request", f"expected the fields {accepted}, got {', '.join(sorted(unknown))}")
    return fields


async def request_of(kind: type[R], given: Mapping[str, Any]) -> R:
    """Return a command of this kind with these fields; raise why they are invalid."""
    fields = read_fields(write_body({"command": kind.command, **given}))
    request = await in_worker_thread(bytes_to_read(fields.options), parse, fields)
    assert isinstance(request, kind), "the command names it"
    return request


async def body_in(request: HttpRequest, bytes_max: int) -> bytes:
    """Read the body. Raise `too large` only at its end: a client that is still sending reads no answer."""
    body, size = bytearray(), 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size <= bytes_max:
                body += chunk
    except ClientDisconnect:
        raise SowlineError("bad request", "the connection ended before the whole body had arrived") from None
    if size > bytes_max:
        raise SowlineError("too large", f"expected a body of at most {bytes_max} bytes, got {size}")
    return bytes(body)


def media_type_of(request: HttpRequest) -> str:
    """Return the media type of a body, without parameters; empty if the request has none."""
    return request.headers.get("content-type", "").partition(";")[0].strip()


def lines_of(body: bytes) -> list[bytes]:
    """Return the lines of a body that are not blank."""
    return [line.strip() for line in body.splitlines() if line.strip()]


def instant_headers(bookmark: str, seconds: float | None) -> dict[str, str]:
    """Return the headers that name the instant of an answer and, if it is known, how far it is behind the log."""
    lag = {} if seconds is None else {"Sowline-Lag-Seconds": f"{seconds:.3f}"}
    return {"Sowline-Bookmark": bookmark, **lag}


def header_text(text: str) -> str:
    """Return a text as a header may hold it: at most `HEADER_CHARS_MAX` characters.

    Characters other than ASCII, and control characters, are escaped as in Python.
    """
    # The server refuses to send a header with a control character or a blank at its end, and ends the connection.
    # Clients refuse long ones. A field of a record may have such a name
    # (test_a_header_holds_any_text).
    header = printable(text).encode("ascii", "backslashreplace").decode().strip()
    return header if len(header) <= HEADER_CHARS_MAX else f"{header[: HEADER_CHARS_MAX - 3].strip()}..."


async def with_first(first: bytes, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield a chunk that was read already, then the others."""
    yield first
    async for more in lines:
        yield more
