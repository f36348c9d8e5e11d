"""What handlers of HTTP requests share: numbers in parameters, and texts in headers."""

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request as HttpRequest

from sowline.serving.http.requests import HEADER_CHARS_MAX, NDJSON, accepts, header_text, number_in


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("did you mean /status?", "did you mean /status?"),
        ("[/sta\r\ntus]", "[/sta\\r\\ntus]"),
        ("[/\x00\x1b\x7f\x85\u2028é€]", "[/\\x00\\x1b\\x7f\\x85\\u2028\\xe9\\u20ac]"),
        (" /a ", "/a"),
        ("x" * 2001, "x" * 1997 + "..."),
    ],
)
def test_a_text_in_a_header(text: str, header: str) -> None:
    """A user reads what it was, and a line stays a line."""
    assert header_text(text) == header


@given(st.text())
def test_a_header_holds_any_text(text: str) -> None:
    """The server sends it as it is."""
    header = header_text(text)
    h11.Response(status_code=200, headers=[("Sowline-Warning", header)])
    assert len(header) <= HEADER_CHARS_MAX


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7),
        ("9" * 18, 10**18 - 1),
        *((text, text) for text in ("", "-1", "1.5", "٣", "²", "9" * 19, "9" * 5000)),
    ],
)
def test_a_number_in_a_parameter(text: str, number: int | str) -> None:
    """What is none, or is too large, stays a text, which the reader of the request refuses."""
    assert number_in(text) == number


@pytest.mark.parametrize(
    ("header", "is_accepted"),
    [
        ("application/x-ndjson", True),
        ("text/html;q=0.9, Application/X-NDJSON; q=0.5", True),
        ("application/json", False),
        ("*/*", False),
    ],
)
def test_what_a_client_accepts(header: str, is_accepted: bool) -> None:
    """By its name, in any case, with or without a weight."""
    request = HttpRequest({"type": "http", "headers": [(b"accept", header.encode())]})
    assert accepts(request, NDJSON) is is_accepted
