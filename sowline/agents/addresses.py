"""The addresses of resources: the changes of a topic since a bookmark. Pure."""

from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from sowline.agents.arguments import ChangesArguments, read_arguments
from sowline.errors import SowlineError

TEMPLATE = "sowline://topics/{topic}/changes{?filter,after}"
PARAMETERS = ("filter", "after")


def address_of(topic: str, **given: str) -> str:
    """Return the address of a topic's changes."""
    query = urlencode(given, quote_via=quote)
    return f"sowline://topics/{quote(topic, safe='')}/changes{'?' if query else ''}{query}"


def read_address(text: str) -> ChangesArguments:
    """Return the changes that an address names; raise `bad request`."""
    try:
        url = urlsplit(text)
        topic, _, what = url.path.removeprefix("/").partition("/")
        given = parse_qsl(url.query, keep_blank_values=True, strict_parsing=bool(url.query), errors="strict")
        named = dict(given)
        is_valid = (url.scheme, url.netloc, what, url.fragment) == ("sowline", "topics", "changes", "")
        if is_valid and len(named) == len(given) and named.keys() <= {*PARAMETERS}:
            return read_arguments(ChangesArguments, {"topic": unquote(topic, errors="strict"), **named})
    except ValueError:
        pass
    raise SowlineError("bad request", f"expected an address like {TEMPLATE}, got {text[:100]!r}")
