"""The files of the web console at `/console/`, and how long a browser may cache them.

Files are read and compressed at the first request, in a worker thread. Third-party files are in folders with a
version in the name and never change. A browser asks for other files each time, and gets a 304 if they have not
changed.
"""

import asyncio
import gzip
import hashlib
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

CONSOLE = Path(__file__).parents[1] / "console"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".md": "text/plain; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
    "": "text/plain; charset=utf-8",
}
PACKED = (".wasm",)
"""Kinds of files that are compressed already."""

GRID_STYLES = (
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='",
    "'sha256-CjknTzl2uKtf8HzhOg2u184k8XVq0Q32LfRRPUqc0g4='",
    "'sha256-rjC4ta+DkxJjU72hK9nIKZxg1UN00ALy4b/FYtZ7KHc='",
)
"""Checksums of the style sheets that the grid adds to the page; the first is the empty sheet."""

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self' 'wasm-unsafe-eval'",
        "worker-src 'self'",
        "connect-src 'self'",
        "style-src 'self' " + " ".join(GRID_STYLES),
        "style-src-attr 'unsafe-inline'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""Everything is loaded from this service, and nothing is inline, except what the grid needs: style attributes to
position its cells, and icons as data."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
}
FOR_EVER = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"


class Asset(NamedTuple):
    """A file in the form that is sent."""

    body: bytes
    gzipped: bytes | None
    headers: dict[str, str]


def read_asset(path: Path) -> Asset:
    """Read a file of the console."""
    body = path.read_bytes()
    headers = {
        "Content-Type": TYPES[path.suffix],
        "ETag": f'"{hashlib.sha256(body).hexdigest()[:32]}"',
        "Cache-Control": FOR_EVER if "vendor" in path.parts else ASK_AGAIN,
    }
    return Asset(body, None if path.suffix in PACKED else gzip.compress(body, 9, mtime=0), headers)


class Console:
    """Serves the files of the console, and no others."""

    def __init__(self, directory: Path = CONSOLE) -> None:
        # Requests are looked up here and never become paths, so no `..` leads to another file
        # (test_nothing_else_is_served).
        self._paths = {
            path.relative_to(directory).as_posix(): path for path in directory.rglob("*") if path.is_file()
        }
        self._assets: dict[str, Asset] = {}

    @property
    def routes(self) -> list[Route]:
        """The routes of the console, and of `/`, which redirects to it."""
        return [Route("/", _to_console), Route("/console/{path:path}", self._file)]

    async def _file(self, request: Request) -> Response:
        name = request.path_params["path"] or "index.html"
        if name not in self._paths:
            # Errors have the policy as well: a browser shows them as pages of this host
            # (test_every_answer_is_kept_to_this_host).
            return Response("no such file of the console\n", 404, HEADERS, "text/plain")
        if name not in self._assets:
            self._assets[name] = await asyncio.to_thread(read_asset, self._paths[name])
        return _answer(self._assets[name], request)


def _answer(asset: Asset, request: Request) -> Response:
    headers = HEADERS | asset.headers
    if asset.headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if asset.gzipped is not None and "gzip" in request.headers.get("accept-encoding", ""):
        return Response(asset.gzipped, headers=headers | {"Content-Encoding": "gzip"})
    return Response(asset.body, headers=headers)


async def _to_console(request: Request) -> Response:
    # Relative: behind a proxy, the console is below a path that the service does not know
    # (test_the_root_leads_to_the_console).
    return RedirectResponse("console/")
