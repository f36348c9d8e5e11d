"""The header `traceparent`: the W3C's text for a place in a trace, which goes from a command on to its changes.

It is carried as it came and means nothing to what a record becomes. A text in another form is ignored.
"""

import re
from typing import Final

from sowline.protocol.command import Headers

TRACEPARENT: Final = "traceparent"

_FORM = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f][0-9a-f]", re.ASCII)


def read_traceparent(raw: str | bytes | None) -> str | None:
    """Return the text, or None if it is not a traceparent."""
    text = raw.decode("latin-1") if isinstance(raw, bytes) else raw
    return text if text is not None and _FORM.fullmatch(text) else None


def traceparent_of(headers: Headers) -> str | None:
    """Return what the headers of a Kafka record say; of a repeated one the last counts."""
    found = None
    for name, value in headers:
        if name == TRACEPARENT:
            found = value
    return None if found is None else read_traceparent(found)


def is_sampled(traceparent: str) -> bool:
    """Tell whether the trace is one that is recorded."""
    return bool(int(traceparent[-2:], 16) & 1)
