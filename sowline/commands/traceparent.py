"""The header `traceparent`: the W3C trace context, passed on unchanged from a command to its changes.

It has no effect on records. An invalid value is ignored.
"""

import re
from typing import Final

from sowline.commands.command import Headers

TRACEPARENT: Final = "traceparent"

# W3C allows neither capitals nor ids of zeros. A later version of the format may have more fields, which would go on
# unread (test_what_has_another_form_is_none).
_FORM = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f][0-9a-f]", re.ASCII)


def read_traceparent(raw: str | bytes | None) -> str | None:
    """Return the header's text, or None if it is not a valid traceparent."""
    # Latin-1 reads any bytes. In UTF-8 some headers would be an error, but no trace may stop a command
    # (test_what_has_another_form_is_none).
    text = raw.decode("latin-1") if isinstance(raw, bytes) else raw
    return text if text is not None and _FORM.fullmatch(text) else None


def traceparent_of(headers: Headers) -> str | None:
    """Return the traceparent in the headers of a Kafka record, the last one if repeated; None if there is none."""
    found = None
    for name, value in headers:
        if name == TRACEPARENT:
            found = value
    return None if found is None else read_traceparent(found)


def is_sampled(traceparent: str) -> bool:
    """Return whether the trace is sampled (recorded)."""
    return bool(int(traceparent[-2:], 16) & 1)
