"""The public keys of token issuers: fetched when first needed, kept, and fetched again when one is missing."""

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

from sowline.config.proxies import direct, via
from sowline.errors import SowlineError
from sowline.serving.authorization.access_file import Jwt

log = structlog.get_logger()

FETCH_SECONDS_MAX = 5.0
BYTES_MAX = 1 << 20
FRESH_SECONDS = 600.0
"""The age at which keys are fetched again, so that withdrawn keys are no longer accepted."""

AGAIN_SECONDS = 10.0
"""The shortest time between two fetches that an unknown key or a failure causes."""


class PublicKey(NamedTuple):
    """A key of a set, with its id and algorithm; these are empty if the set has none."""

    id: str
    algorithm: str
    key: Any


class Keys:
    """The keys of one issuer, for one event loop. `fetched` is called after each fetch."""

    def __init__(self, rules: Jwt, fetched: Callable[[], object]) -> None:
        self._rules = rules
        self._tell_fetched = fetched
        self._keys: tuple[PublicKey, ...] = ()
        self._fetched: float | None = None
        self._missed: float | None = None
        """When the keys were last fetched because of an unknown key, a failure, or their age."""
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, id: str, algorithm: str) -> list[Any]:
        """Return the keys that may have made this signature; raises `auth unavailable` if no keys are available."""
        if self._fetched is None:
            await self.look_again()
        await self.keep_fresh()
        if not (found := self._fitting(id, algorithm)):
            await self.look_again()
            found = self._fitting(id, algorithm)
        if self._fetched is None:
            raise SowlineError(
                "auth unavailable",
                "the keys for checking tokens are not available; retry later, or ask the operator",
            )
        return found

    async def keep_fresh(self) -> None:
        """Start to fetch the keys again if they are old.

        If they were unused for long, wait for the fetch: a key may have been withdrawn in the meantime.
        """
        now = time.monotonic()
        if self._fetched is None or now - self._fetched <= FRESH_SECONDS:
            return
        was_idle = self._missed is None or now - self._missed > FRESH_SECONDS + AGAIN_SECONDS
        self._begin_now_and_then()
        # Shielded: a client that disconnects while it waits must not cancel the fetch for all others.
        if was_idle and self._fetching is not None:
            await asyncio.shield(self._fetching)

    def _fitting(self, id: str, algorithm: str) -> list[Any]:
        # A token that names no key may be signed by any of them (test_a_token_that_names_no_key).
        return [
            one.key for one in self._keys if one.algorithm in ("", algorithm) and (not id or one.id == id)
        ]

    async def look_again(self) -> None:
        """Fetch the keys, unless that was tried a moment ago; wait for a fetch in progress."""
        self._begin_now_and_then()
        if self._fetching is not None:
            await asyncio.shield(self._fetching)

    def _begin_now_and_then(self) -> None:
        now = time.monotonic()
        # Anybody can send tokens of unknown keys: the issuer is asked once for all of them, and not again at once
        # (test_a_flood_of_unknown_keys).
        if self._fetching is None and (self._missed is None or now - self._missed > AGAIN_SECONDS):
            self._missed = now
            self._fetching = asyncio.create_task(self._fetch())
            self._fetching.add_done_callback(self._end_fetching)

    def _end_fetching(self, task: "asyncio.Task[None]") -> None:
        self._fetching = None

    async def _fetch(self) -> None:
        """Fetch the current keys from their source; keep the previous ones if that fails."""
        source = self._rules.jwks
        try:
            text = await self._download() if "://" in source else await asyncio.to_thread(_read, Path(source))
            keys = read_keys(text)
        except Exception as error:
            # Whatever the issuer answers, keep the known keys: their tokens stay valid while it is down.
            log.warning(
                "keys not fetched", source=source, why=f"{type(error).__name__}: {error}{via(source)}"
            )
            return
        # The first fetch was for no missing key: a token of a new key may cause the next one at once.
        if self._fetched is None:
            self._missed = None
        self._keys, self._fetched = keys, time.monotonic()
        self._tell_fetched()
        log.info("keys fetched", source=source, keys=[one.id for one in keys])

    async def _download(self) -> bytes:
        """Return the key set that the issuer publishes; raise the error of the request, or TimeoutError."""
        trusted = await asyncio.to_thread(ssl.create_default_context, cafile=self._rules.ca_file)
        plain = {"accept-encoding": "identity"}  # a few compressed bytes may be gigabytes
        async with (
            # For all of the answer: the client's own timeout starts again with each byte
            # (test_an_issuer_that_does_not_end_its_answer).
            asyncio.timeout(FETCH_SECONDS_MAX),
            httpx2.AsyncClient(timeout=FETCH_SECONDS_MAX, verify=trusted, **direct(self._rules.jwks)) as web,
            web.stream("GET", self._rules.jwks, headers=plain) as answer,
        ):
            answer.raise_for_status()
            text = bytearray()
            async for part in answer.aiter_raw():
                text += part
                if len(text) > BYTES_MAX:
                    raise ValueError(f"expected at most {BYTES_MAX} bytes, got more")
        return bytes(text)


def _read(path: Path) -> bytes:
    return path.read_bytes()


def read_keys(text: bytes) -> tuple[PublicKey, ...]:
    """Return the public keys for signatures of a JWK set, without those that can't be used here.

    Raises ValueError for anything but a set, and for a set without a usable key. An empty list is a
    set: an issuer may have withdrawn all of its keys.
    """
    found = orjson.loads(text)
    listed = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise ValueError(f"expected a set of keys, a JSON object with the list `keys`, got {text[:60]!r}")
    keys = tuple(key for each in listed if (key := _public_key(each)) is not None)
    if listed and not keys:
        raise ValueError(f"expected at least one usable key, got {len(listed)} unusable ones")
    return keys


def _public_key(given: Any) -> PublicKey | None:
    # Anyone who can read the set could sign with a symmetric or a private key.
    if not isinstance(given, dict) or given.get("kty") == "oct" or "d" in given:
        return None
    if given.get("use", "sig") != "sig":
        return None
    # An issuer may publish a new kind of key; its other keys stay valid
    # (test_a_key_that_can_not_be_used_does_not_spoil_the_others).
    try:
        key = jwt.PyJWK(given).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    return PublicKey(str(given.get("kid", "")), str(given.get("alg", "")), key)
