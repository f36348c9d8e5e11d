"""The header `Host`, read strictly: a name or an address, and a port. Pure."""

import ipaddress
import re
from typing import NamedTuple

_HOST = re.compile(r"(?P<name>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{0,5}))?")
_PORT_MAX = 65535


class Host(NamedTuple):
    """A name in lower case, or an address without brackets; the port is None if the header has none."""

    name: str
    port: int | None


def read_host(text: str) -> Host | None:
    """Return the host that a header names, or None if the text is not `name`, `name:port` or `[IPv6]:port`.

    A URL parser accepts more here: it takes `evil@127.0.0.1` and `127.0.0.1#.evil` for the address 127.0.0.1.
    """
    match = _HOST.fullmatch(text)
    if match is None:
        return None
    name, port = match["name"].lower(), int(match["port"] or 0) or None
    if port is not None and port > _PORT_MAX:
        return None
    if not name.startswith("["):
        return Host(name, port)
    try:
        return Host(str(ipaddress.IPv6Address(name[1:-1])), port)
    except ValueError:
        return None
