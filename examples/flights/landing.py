"""The demo's landing page: its files, its stream of numbers, and its buttons, which kill parts of the system.

It listens on loopback only. The link that the demo prints has a token, which opens the page once: it becomes a cookie
that no other site can send. A button also needs the page's own origin.
"""

import asyncio
import contextlib
import json
import secrets
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from examples.flights.disturb import PARTS, Disturbances
from examples.flights.run import Run
from sowline.runtime.ports import HOST, free_port

PAGE = Path(__file__).with_name("page")
CONSOLE = Path(__file__).parents[2] / "sowline" / "serving" / "console"
COOKIE = "sowline-demo"
STATE_S = 0.25
"""Seconds between two states of a stream."""
SHOWN_S = 120
"""Seconds that the chart of latencies shows: a page that is opened later shows the same ones."""
GOODBYE_S_MAX = 4.0
"""How long the end of the demo waits for the pages that are open: each leaves once it shows everything."""


class Outcome(NamedTuple):
    """How the demo ended: a sentence, whether nothing was lost (None: not checked), and its numbers by name.

    `moment` is the simulated one at which everything stands (seconds since 1970); None if not everything that was fed
    has arrived. `latencies` are those that the summary names, each with a text and its milliseconds.
    """

    verdict: str
    is_lossless: bool | None
    summary: Sequence[tuple[str, str]]
    moment: int | None = None
    latencies: Sequence[tuple[str, float]] = ()


class LandingPage:
    """The page and its server. Its origin is known before it is served."""

    def __init__(self) -> None:
        self._service = ""
        self._run: Run | None = None
        self._disturbances: Disturbances | None = None
        self._port = free_port()
        self._token: str | None = secrets.token_urlsafe(16)
        self._cookie = secrets.token_urlsafe(32)
        self._outcome: Outcome | None = None
        self._end = asyncio.Event()
        self._streams = 0
        self._samples: deque[tuple[float, float | None]] = deque(maxlen=round(SHOWN_S / STATE_S))
        """Moments (seconds since 1970), each with the latency in milliseconds; None where nothing came."""

    @property
    def origin(self) -> str:
        """The origin of the page, which the query service must allow."""
        return f"http://{HOST}:{self._port}"

    @property
    def link(self) -> str:
        """The address that opens the page, once."""
        return f"{self.origin}/?token={self._token}"

    def finish(self, outcome: Outcome) -> None:
        """Report how the demo ended, as the last event of every stream."""
        self._outcome = outcome
        self._end.set()

    @asynccontextmanager
    async def served(self, url: str, run: Run, disturbances: Disturbances) -> AsyncIterator[None]:
        """Serve the page for the time of the block; `url` is the query service's."""
        self._service, self._run, self._disturbances = url, run, disturbances
        config = uvicorn.Config(self.app, HOST, self._port, log_level="error", lifespan="off")
        server = uvicorn.Server(config)
        # The demo itself handles signals.
        server.capture_signals = contextlib.nullcontext  # type: ignore[method-assign, assignment]
        serving = asyncio.create_task(server.serve())
        sampling = asyncio.create_task(self._sample())
        try:
            while not server.started and not serving.done():
                await asyncio.sleep(0.01)
            yield
        finally:
            self._end.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(GOODBYE_S_MAX):
                    while self._streams:
                        await asyncio.sleep(0.01)
            server.should_exit = True
            server.force_exit = True
            sampling.cancel()
            await serving

    @property
    def app(self) -> Starlette:
        """The application."""
        return Starlette(
            routes=[
                Route("/", self._page),
                Route("/states", self._answer_states),
                Route("/do/{part}", self._disturb, methods=["POST"]),
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
        for name, value in (("SERVICE", self._service), ("OWN", self.origin)):
            text = text.replace(f"@{name}@", value)
        socket = self._service.replace("http", "ws")
        policy = (
            f"default-src 'none'; base-uri {self._service}; script-src 'self'; style-src 'self'; img-src 'self' data:"
            f"; style-src-attr 'unsafe-inline'; connect-src 'self' {self._service} {socket}"
        )
        return HTMLResponse(text, headers={"Content-Security-Policy": policy, "Cache-Control": "no-store"})

    async def _answer_states(self, request: Request) -> Response:
        """Answer with server-sent events: the state, again and again, and the outcome as the last one."""
        if not self._is_known(request):
            return JSONResponse({"message": "expected the page's cookie"}, 403)
        headers = {"Cache-Control": "no-store"}
        return StreamingResponse(self._states(), media_type="text/event-stream", headers=headers)

    async def _states(self) -> AsyncIterator[str]:
        self._streams += 1
        sent_s = 0.0
        try:
            while not self._end.is_set():
                state = self._state(sent_s)
                sent_s = max([sent_s, *(moment for moment, _ in state["samples"])])
                yield _event("state", state)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._end.wait(), STATE_S)
            yield _event("state", self._state(sent_s))
            if self._outcome is not None:
                yield _event("end", self._outcome._asdict())
                # The page closes the stream; until then, its subscriptions need the query service.
                await asyncio.sleep(GOODBYE_S_MAX)
        finally:
            self._streams -= 1

    async def _sample(self) -> None:
        assert self._run is not None, "it is served"
        assert self._disturbances is not None, "it is served"
        while not self._end.is_set():
            now_s = time.time()
            self._samples.append((now_s, None if self._disturbances.is_down else self._run.sample_ms(now_s)))
            await asyncio.sleep(STATE_S)

    def _state(self, since_s: float) -> dict[str, Any]:
        """Return the numbers of the instant, and the latencies that were measured since a moment."""
        assert self._run is not None, "it is served"
        assert self._disturbances is not None, "it is served"
        return self._run.state() | {
            "events": [asdict(event) for event in self._disturbances.events],
            "samples": [sample for sample in self._samples if sample[0] > since_s],
        }

    async def _disturb(self, request: Request) -> Response:
        """Kill a part of the system; answer once that is done and checked."""
        if not self._is_known(request) or request.headers.get("origin") != self.origin:
            return JSONResponse({"message": "expected the page's cookie and origin"}, 403)
        assert self._disturbances is not None, "it is served"
        part = request.path_params["part"]
        if part not in PARTS:
            return JSONResponse({"message": f"expected one of {', '.join(PARTS)}"}, 404)
        if self._disturbances.is_busy:
            return JSONResponse({"message": "expected to wait for the check of what was killed before"}, 409)
        await self._disturbances.disturb(part)
        return JSONResponse({})

    def _is_known(self, request: Request) -> bool:
        return secrets.compare_digest(request.cookies.get(COOKIE, "").encode(), self._cookie.encode())


def _event(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
