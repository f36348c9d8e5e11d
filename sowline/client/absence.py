"""The reason why no service answers, as a sentence for the user: nothing listens, or the answer does not arrive."""

import socket
from urllib.parse import urlsplit

import httpx2

from sowline.config.proxies import is_loopback, via
from sowline.errors import SowlineError


def is_absent(url: str, error: Exception) -> bool:
    """Tell whether there is no service: its name does not resolve, or nothing on this machine listens at the port.

    Another machine that refuses a connection may be starting the service.
    """
    # Look-ups also fail for a moment while a name server is away: the service may still exist.
    if isinstance(error, socket.gaierror):
        return error.errno != socket.EAI_AGAIN
    return is_loopback(urlsplit(url).hostname or "") and _is_refused(error)


def _is_refused(error: BaseException | None) -> bool:
    """Tell whether a connection was refused; libraries wrap the system's error as the cause of their own.

    A name with several addresses, such as `localhost`, raises one plain OSError for all of them, without a number. A
    subclass of OSError without a number means that the connection was accepted: a service may be starting.
    """
    while error is not None:
        if isinstance(error, ConnectionRefusedError) or (type(error) is OSError and error.errno is None):
            return True
        error = error.__cause__ or error.__context__
    return False


CARRIED_OUT = "it may have carried out the request, so check before you repeat it"
"""The end of the error about a write whose answer did not arrive. A read is repeated without a check."""


def no_answer(service: str, url: str, error: Exception, *, is_write: bool = False) -> SowlineError:
    """Return the error for a request that was not answered: no service listens, or it takes too long."""
    if isinstance(error, httpx2.ReadTimeout | httpx2.WriteTimeout):
        seconds = error.request.extensions["timeout"]["read"]
        later = "; it may still carry out the request, so check before you repeat it" if is_write else ""
        return SowlineError(
            "request timeout",
            f"expected {service} at {url} to continue its answer within {seconds:g} s, got nothing{later}"
            f"{via(url)}",
        )
    if not isinstance(error, socket.gaierror) and is_absent(url, error):
        address = urlsplit(url)._replace(path="", query="", fragment="").geturl()
        return SowlineError("not connected", f"nothing listens at {address}: is `sowline up` running?")
    why = str(error) or type(error).__name__
    if is_write and isinstance(error, httpx2.ReadError | httpx2.RemoteProtocolError):
        why += f"; {CARRIED_OUT}"
    return SowlineError("not connected", f"expected {service} at {url}, got: {why}{via(url)}")
