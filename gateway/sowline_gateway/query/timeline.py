"""A document's timeline, as a node answers it over HTTP."""

import json
from dataclasses import dataclass
from urllib.parse import quote, urlencode

import msgspec

from sowline.wire.request import ReadTimeline, staleness_text
from sowline.wire.server_message import ms_of


class _Answer(msgspec.Struct):
    sow_key: str
    bookmark: str
    since: str
    writes: list[msgspec.Raw]


@dataclass(frozen=True, slots=True)
class NodeTimeline:
    """A timeline: encoded writes, the node's bookmark, and the time in ms since 1970 from which it is complete."""

    sow_key: bytes
    bookmark: str
    since: int
    writes: list[bytes]


def timeline_path(request: ReadTimeline, at_least: str) -> tuple[str, str]:
    """Return the path and the query of the GET for a timeline of a state at `at_least` or beyond it."""
    # A key may contain `/`, which `quote` leaves as it is by default: the node would read it as two parts of the
    # path.
    path = f"/v1/topics/{quote(request.topic)}/records/{quote(request.key, safe='')}/timeline"
    given: list[tuple[str, str]] = [("up_to", request.up_to)] if request.up_to else []
    given += [("max_staleness", staleness)] if (staleness := staleness_text(request)) else []
    bookmark = request.bookmark if isinstance(request.bookmark, str) else json.dumps(request.bookmark)
    given += [("bookmark", bookmark)] if bookmark else []
    given += [("at_least", at_least)] if at_least else []
    given += [("limit", str(request.limit)), ("reversed", "true" if request.reversed else "false")]
    return path, urlencode(given)


def timeline_of(body: bytes) -> NodeTimeline:
    """Return the timeline in a node's answer."""
    found = msgspec.json.decode(body, type=_Answer)
    return NodeTimeline(
        found.sow_key.encode(), found.bookmark, ms_of(found.since), [bytes(one) for one in found.writes]
    )
