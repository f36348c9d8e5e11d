"""The proxies of the environment: which URLs go through one, and what an error says about it.

Loopback never does. The variables are usually set for the Internet, and a proxy has another loopback.
"""

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from socket import inet_aton
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

DIRECT: Mapping[str, Any] = dict.fromkeys(("all://localhost", "all://127.0.0.1", "all://[::1]"))
"""The `mounts` of an HTTP client that takes proxies from the environment, for the usual addresses of loopback."""

_SCHEMES = {"ws": "http", "wss": "https"}


def is_loopback(host: str) -> bool:
    """Tell whether a host of a URL is this machine: `localhost`, a name below it, or a loopback address."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    address = _address(name)
    mapped = getattr(address, "ipv4_mapped", None) or address
    # A client that connects to the unspecified address reaches this machine, too.
    return mapped is not None and (mapped.is_loopback or mapped.is_unspecified)


def _address(name: str) -> IPv4Address | IPv6Address | None:
    """Return the address that a host is, in any spelling that connects, such as `127.1`; None for a name."""
    try:
        return ip_address(name)
    except ValueError:
        pass
    try:
        # A client connects to this machine by `127.1` and `2130706433`, too, which `ip_address` refuses
        # (test_which_urls_go_through_a_proxy).
        return IPv4Address(inet_aton(name))
    except (OSError, ValueError):
        return None


def _host(url: str) -> str:
    """Return the host of a URL; nothing for an invalid one, about which its user reports an error."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def direct(url: str) -> dict[str, Any]:
    """Return the options of an HTTP client for this URL: none of the proxies where its host is loopback.

    A client reads the proxies of the environment even if it mounts others, and a SOCKS proxy without a package for it
    is an ImportError. So a plain client of loopback reads none. One with TLS does: SSL_CERT_FILE is there, too.
    """
    host = _host(url)
    if not is_loopback(host):
        return {"mounts": dict(DIRECT)}
    named = f"[{host}]" if ":" in host else host
    return {"mounts": {**DIRECT, f"all://{named}": None}, "trust_env": not url.lower().startswith("http:")}


def proxy_of(url: str) -> str | None:
    """Return the proxy that a URL goes through, as the environment says; None if it goes there directly."""
    host, scheme = _host(url), url.partition(":")[0].lower()
    scheme = _SCHEMES.get(scheme, scheme)
    if not host or is_loopback(host) or proxy_bypass(host):
        return None
    found = getproxies()
    proxy = found.get(scheme) or found.get("all")
    # The variables often have a proxy without a scheme, such as `proxy:3128`. It is one for HTTP.
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


def via(url: str) -> str:
    """Return the end of a sentence about a failure: the proxy that the URL goes through, or nothing."""
    proxy = proxy_of(url)
    if proxy is None:
        return ""
    parts = urlsplit(proxy)
    address = parts.netloc.rpartition("@")[2]  # without a password
    return f" (through the proxy {parts.scheme}://{address} of the environment; NO_PROXY names hosts without one)"
