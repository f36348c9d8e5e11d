"""What the parser of the version before makes of requests: runs with that version's `sowline`, without ours.

Standard input has a request a line; standard output gets a line for each.
"""

import dataclasses
import sys

import msgspec
from sowline.protocol.request import Request, read_request  # type: ignore[import-not-found]


def understood(text: bytes) -> list[str]:
    """Return what a request asks for."""
    request: Request = read_request(text)
    options = {name: repr(value) for name, value in dataclasses.asdict(request.parsed_options).items()}
    found = [request.command, repr(request.acks), msgspec.json.encode(options).decode(), repr(request.order)]
    found.append(repr(request.bookmark_range))
    return found + (understood(bytes(request.replaces)) if request.replaces else [])


for line in sys.stdin.buffer:
    print(msgspec.json.encode(understood(line)).decode())
