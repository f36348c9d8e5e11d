"""The trusted proxies, which report the addresses of clients. Pure."""

import ipaddress

from sowline.errors import SowlineError


def read_proxies(text: str) -> list[str]:
    """Return the addresses and networks that a setting lists, with commas between; raises `bad configuration`."""
    found = [part.strip() for part in text.split(",") if part.strip()]
    for part in found:
        try:
            ipaddress.ip_network(part)
        except ValueError as error:
            raise SowlineError(
                "bad configuration",
                "expected in SOWLINE_TRUSTED_PROXIES addresses or networks such as 10.0.0.7 or 10.1.0.0/16, with"
                f" commas between, got {part[:100]!r}: {error}",
            ) from None
    return found
