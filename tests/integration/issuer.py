"""An issuer of JSON Web Tokens: keys that sign, and an HTTP server that publishes their public halves."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ed25519

AUDIENCE = "sowline"


class Issuer:
    """Signs with its newest key. `published` is what it answers with."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked = 0
        self.given: list[str] = []
        """All tokens that there have been."""
        self.status = 200
        self.garbage: bytes | None = None
        """What it answers with in place of its keys."""
        self._keys: dict[str, ed25519.Ed25519PrivateKey] = {}
        self.rotate()

    def rotate(self, *, keep: bool = False) -> None:
        """Sign with a new key, and publish it alone, or next to the others."""
        made = {f"k{time.monotonic_ns()}": ed25519.Ed25519PrivateKey.generate()}
        self._keys = self._keys | made if keep else made

    @property
    def published(self) -> bytes:
        """The public keys, as a JWK set."""
        public = jwt.algorithms.OKPAlgorithm.to_jwk
        keys = [public(key.public_key(), as_dict=True) | {"kid": name} for name, key in self._keys.items()]
        return json.dumps({"keys": keys}).encode()

    def token(
        self, user: str, *roles: str, seconds: float = 600, kid: str | None = None, **claims: Any
    ) -> str:
        """Return a token for somebody, which names its key, another one, or none if `kid` is empty."""
        name, key = list(self._keys.items())[-1]
        usual = {"iss": self.url, "aud": AUDIENCE, "sub": user, "exp": time.time() + seconds}
        headers = {} if kid == "" else {"kid": kid or name}
        made = jwt.encode({**usual, "roles": roles, **claims}, key, "EdDSA", headers=headers)
        self.given.append(made)
        return made


@contextmanager
def issuer() -> Iterator[Issuer]:
    """Lend one that listens on this machine."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked += 1
            self.send_response(made.status)
            self.end_headers()
            with contextlib.suppress(ConnectionError):
                self.wfile.write(made.published if made.garbage is None else made.garbage)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        made = Issuer(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield made
        finally:
            server.shutdown()
            thread.join()
