"""What a command asks services over HTTP: one GET at a time, with a limit in time and in bytes."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson

from sowline.cli.door import Door
from sowline.errors import SowlineError

ANSWER_SECONDS_MAX = 5.0
BYTES_MAX = 64 << 20

Numbers = Mapping[str, Mapping[tuple[tuple[str, str], ...], float]]
"""Metrics: by name, and by their labels in order of their names."""


class Answer(NamedTuple):
    """An answer: its status, its headers in lower case, and its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def sentence(self) -> str:
        """What a health question is answered with for a person; empty where that is nothing."""
        try:
            said = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return ""
        return str(said.get("message", "")) if isinstance(said, dict) else ""


def get(url: str, door: Door = Door()) -> Answer:  # noqa: B008
    """Ask a service; raises `not connected` where nobody answers, and `bad request` for what is no URL.

    The token goes where records are, and nowhere that an answer leads to.
    """
    if not url.startswith(("http://", "https://")):
        raise SowlineError("bad request", f"expected a URL like http://127.0.0.1:8080, got {url!r}")
    request = urllib.request.Request(url)
    if urlsplit(url).path.startswith("/v1/") and (token := door.read_token()):
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    context = door.tls if url.startswith("https://") else None
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS_MAX, context=context) as response:
            return _answer(response.status, response)
    except urllib.error.HTTPError as error:
        with error:
            return _answer(error.code, error)
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise SowlineError("not connected", f"expected a service at {url}, got: {why}") from error


def served_topics(answer: Answer) -> tuple[Mapping[str, Any], ...] | None:
    """Return what a query service says of its topics at `/v1/topics`; None where the answer is something else."""
    try:
        return tuple(orjson.loads(answer.body)["topics"]) if answer.status == 200 else None
    except (ValueError, LookupError, TypeError):
        return None


def read_metrics(text: str) -> Numbers:
    """Read what a service says at `/metrics`; raises ValueError for anything else."""
    from prometheus_client.parser import text_string_to_metric_families  # only who reads metrics waits for it

    numbers: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            numbers.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return numbers


def _answer(status: int, response: http.client.HTTPResponse | urllib.error.HTTPError) -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(status, headers, response.read(BYTES_MAX))
