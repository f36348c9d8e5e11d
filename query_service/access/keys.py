"""The public keys of who issues tokens: fetched when first needed, kept, and asked for anew when one is missing."""

import asyncio
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import jwt
import orjson
import structlog

from query_service.access.file import Jwt
from sowline.errors import SowlineError

log = structlog.get_logger()

FETCH_SECONDS_MAX = 5.0
BYTES_MAX = 1 << 20
FRESH_SECONDS = 600.0
"""After so long keys are fetched again, so that those which were withdrawn go."""

AGAIN_SECONDS = 10.0
"""Between two times that an unknown key, or a source that does not answer, lets them be fetched."""


class PublicKey(NamedTuple):
    """A key of a set, by its id, and for which algorithm; empty where the set does not say."""

    id: str
    algorithm: str
    key: Any


class Keys:
    """The keys of one issuer, for one event loop. `fetched` is called whenever they were."""

    def __init__(self, rules: Jwt, fetched: Callable[[], object]) -> None:
        self._rules = rules
        self._tell_fetched = fetched
        self._keys: tuple[PublicKey, ...] = ()
        self._fetched: float | None = None
        self._missed: float | None = None
        """When an unknown key, a failure, or their age last let them be fetched."""
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, id: str, algorithm: str) -> list[Any]:
        """Return the keys that may have signed so; raises `auth unavailable` where there are no keys to be had."""
        if self._fetched is None:
            await self._fetch_now_and_then()
        self.keep_fresh()
        if not (found := self._fitting(id, algorithm)):
            await self._fetch_now_and_then()
            found = self._fitting(id, algorithm)
        if self._fetched is None:
            raise SowlineError(
                "auth unavailable",
                "the keys that tokens are checked with can't be had now: try again in a while, or tell who runs this",
            )
        return found

    def keep_fresh(self) -> None:
        """Begin to fetch the keys again if they are old: what one of them has signed is in use."""
        if self._fetched is not None and time.monotonic() - self._fetched > FRESH_SECONDS:
            self._begin_now_and_then()

    def _fitting(self, id: str, algorithm: str) -> list[Any]:
        return [
            one.key for one in self._keys if one.algorithm in ("", algorithm) and (not id or one.id == id)
        ]

    async def _fetch_now_and_then(self) -> None:
        """Wait for keys that are being fetched; begin with that unless it was tried a moment ago."""
        self._begin_now_and_then()
        if self._fetching is not None:
            await asyncio.shield(self._fetching)

    def _begin_now_and_then(self) -> None:
        now = time.monotonic()
        if self._fetching is None and (self._missed is None or now - self._missed > AGAIN_SECONDS):
            self._missed = now
            self._fetching = asyncio.create_task(self._fetch())
            self._fetching.add_done_callback(self._end_fetching)

    def _end_fetching(self, task: "asyncio.Task[None]") -> None:
        self._fetching = None

    async def _fetch(self) -> None:
        """Take the keys as they are at their source; those of before stay where it has none to give."""
        source = self._rules.jwks
        try:
            text = await self._download() if "://" in source else await asyncio.to_thread(_read, Path(source))
            keys = read_keys(text)
        except (OSError, ssl.SSLError, httpx2.HTTPError, ValueError) as error:
            log.warning("keys not fetched", source=source, why=f"{type(error).__name__}: {error}")
            return
        if self._fetched is None:
            self._missed = None
        self._keys, self._fetched = keys, time.monotonic()
        self._tell_fetched()
        log.info("keys fetched", source=source, keys=[one.id for one in keys])

    async def _download(self) -> bytes:
        trusted = ssl.create_default_context(cafile=self._rules.ca_file)
        async with httpx2.AsyncClient(timeout=FETCH_SECONDS_MAX, verify=trusted) as web:
            answer = await web.get(self._rules.jwks)
            answer.raise_for_status()
        if len(answer.content) > BYTES_MAX:
            raise ValueError(f"expected at most {BYTES_MAX} bytes, got {len(answer.content)}")
        return answer.content


def _read(path: Path) -> bytes:
    return path.read_bytes()


def read_keys(text: bytes) -> tuple[PublicKey, ...]:
    """Return the public keys for signatures of a JWK set, without those of kinds unknown here; raises ValueError."""
    try:
        listed = orjson.loads(text)["keys"]
        return tuple(key for each in listed if (key := _public_key(each)) is not None)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("expected a set of keys, a JSON object with `keys`") from error


def _public_key(given: dict[str, Any]) -> PublicKey | None:
    if given.get("kty") == "oct" or "d" in given or given.get("use", "sig") != "sig":
        return None
    try:
        key = jwt.PyJWK(given).key
    except jwt.PyJWTError:
        return None
    return PublicKey(str(given.get("kid", "")), str(given.get("alg", "")), key)
