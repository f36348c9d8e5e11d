"""The demo's landing page: its files, the numbers that it shows, and its buttons, which kill parts of the system.

It listens on loopback only. The link that the demo prints has a token, which opens the page once: it becomes a cookie
that no other site can send. A button also needs the page's own origin.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from examples.flights.disturb import Disturbances
from examples.flights.run import Run
from sowline.runtime.ports import HOST, free_port

PAGE = Path(__file__).with_name("page")
CONSOLE = Path(__file__).parents[2] / "sowline" / "serving" / "console"
COOKIE = "sowline-demo"


class LandingPage:
    """The page of one airport, and its server. Its origin is known before it is served."""

    def __init__(self, airport: str) -> None:
        self._service = ""
        self._airport = airport
        self._run: Run | None = None
        self._disturbances: Disturbances | None = None
        self._port = free_port()
        self._token: str | None = secrets.token_urlsafe(16)
        self._cookie = secrets.token_urlsafe(32)

    @property
    def origin(self) -> str:
        """The origin of the page, which the query service must allow."""
        return f"http://{HOST}:{self._port}"

    @property
    def link(self) -> str:
        """The address that opens the page, once."""
        return f"{self.origin}/?token={self._token}"

    @asynccontextmanager
    async def served(self, url: str, run: Run, disturbances: Disturbances) -> AsyncIterator[None]:
        """Serve the page for the time of the block; `url` is the query service's."""
        self._service, self._run, self._disturbances = url, run, disturbances
        config = uvicorn.Config(self.app, HOST, self._port, log_level="error", lifespan="off")
        server = uvicorn.Server(config)
        # The demo itself handles signals.
        server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
        serving = asyncio.create_task(server.serve())
        try:
            while not server.started and not serving.done():
                await asyncio.sleep(0.01)
            yield
        finally:
            server.should_exit = True
            server.force_exit = True
            await serving

    @property
    def app(self) -> Starlette:
        """The application."""
        return Starlette(
            routes=[
                Route("/", self._page),
                Route("/state", self._answer_state),
                Route("/do/{what}", self._disturb, methods=["POST"]),
                # The page uses the console's copy of the TypeScript client.
                Mount("/console", StaticFiles(directory=CONSOLE)),
                Mount("/page", StaticFiles(directory=PAGE)),
            ]
        )

    async def _page(self, request: Request) -> Response:
        """Exchange the token of the link for a cookie; with the cookie, answer with the page."""
        given = request.query_params.get("token", "")
        if self._token is not None and secrets.compare_digest(given.encode(), self._token.encode()):
            self._token = None
            answer: Response = RedirectResponse("/", 303)
            answer.set_cookie(COOKIE, self._cookie, httponly=True, samesite="strict")
            return answer
        if not self._is_known(request):
            return HTMLResponse("<p>Open the link that the demo has printed; it works once.</p>", 403)
        text = (PAGE / "index.html").read_text(encoding="utf-8")
        for name, value in (("SERVICE", self._service), ("AIRPORT", self._airport), ("OWN", self.origin)):
            text = text.replace(f"@{name}@", value)
        socket = self._service.replace("http", "ws")
        policy = (
            f"default-src 'none'; base-uri {self._service}; script-src 'self'; style-src 'self'; img-src 'self' data:"
            f"; style-src-attr 'unsafe-inline'; connect-src 'self' {self._service} {socket}"
        )
        return HTMLResponse(text, headers={"Content-Security-Policy": policy, "Cache-Control": "no-store"})

    async def _answer_state(self, request: Request) -> Response:
        if not self._is_known(request):
            return JSONResponse({"message": "expected the page's cookie"}, 403)
        assert self._run is not None, "it is served"
        assert self._disturbances is not None, "it is served"
        events = [asdict(event) for event in self._disturbances.events]
        return JSONResponse(self._run.state() | {"events": events})

    async def _disturb(self, request: Request) -> Response:
        """Kill or restart a part of the system; answer once that is done."""
        if not self._is_known(request) or request.headers.get("origin") != self.origin:
            return JSONResponse({"message": "expected the page's cookie and origin"}, 403)
        assert self._disturbances is not None, "it is served"
        buttons = {
            "materializer": self._disturbances.kill_materializer,
            "query-service": self._disturbances.kill_query_service,
            "kafka": self._disturbances.restart_kafka,
        }
        what = request.path_params["what"]
        if what not in buttons:
            return JSONResponse({"message": f"expected one of {', '.join(buttons)}"}, 404)
        await buttons[what]()
        return JSONResponse({})

    def _is_known(self, request: Request) -> bool:
        return secrets.compare_digest(request.cookies.get(COOKIE, "").encode(), self._cookie.encode())
