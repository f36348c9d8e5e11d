"""Authentication: finds out which user a client is, and disconnects clients whose rights have changed."""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

import structlog

from sowline.errors import SowlineError
from sowline.serving.access.keys import Keys
from sowline.serving.access.watched_access import WatchedAccess
from sowline.serving.authorization.access_file import Access, Jwt
from sowline.serving.authorization.certificates import Certificate
from sowline.serving.authorization.certificates import proof_of as proof_of_certificate
from sowline.serving.authorization.claims import UNSIGNED, NotProved, signed_by
from sowline.serving.authorization.claims import proof_of as proof_of_jwt
from sowline.serving.authorization.identity import ANYBODY, NOTHING, Identity, Proof
from sowline.serving.authorization.login_throttle import LoginThrottle

log = structlog.get_logger()

TOKEN_CHARS_MAX = 16 * 1024
PROOFS_MAX = 10_000
"""The number of accepted tokens to keep. They are checked again if they expire, or the access file or keys change."""


class PresentedCredentials(NamedTuple):
    """The credentials that a client presents, and its address."""

    token: str | None = None
    certificate: Certificate | None = None
    address: str = ""

    def payer(self, user: str) -> str:
        """Return the name whose limits apply: the user, or the address if no user is known."""
        return user or f"\0{self.address}"


class Authenticator:
    """Identifies clients by the current access file; without one, every client may do everything."""

    def __init__(self, file: WatchedAccess | None = None) -> None:
        self._file = file
        self._keys: tuple[Jwt, Keys] | None = None
        # HTTP requests bring their token each time: without this, each would cost the check of a signature.
        self._proofs: OrderedDict[bytes, Proof] = OrderedDict()
        self._login_throttle = LoginThrottle()
        self.refused: Counter[str] = Counter()
        """The number of refused logons, by cause."""

    @property
    def is_open(self) -> bool:
        """Whether there is no access file."""
        return self._file is None

    @property
    def is_stale(self) -> bool:
        """Whether the current access file can't be read."""
        return self._file is not None and self._file.is_stale

    async def watch(self, changed: Callable[[], object]) -> None:
        """Follow changes of the access file, and report them; return if there is no file."""

        def take() -> None:
            self._proofs.clear()
            changed()

        if self._file is not None:
            await self._file.watch(take)

    async def identify(self, given: PresentedCredentials) -> Identity:
        """Return which user a client is; raises `logon required`, `auth failure` and `auth unavailable`."""
        if self._file is None:
            return ANYBODY
        try:
            proof = await self._prove(given, self._file.content)
            return self._file.content.identity(proof)
        except NotProved as error:
            await self._refuse(str(error), given)
        except SowlineError as error:
            self.refused[error.reason] += 1
            raise
        # One sentence for all causes: the real one would tell a guesser which tokens exist, or which part of a forged
        # one is right. The operator finds it in the log.
        raise SowlineError(
            "auth failure",
            "expected a token or a certificate that is valid here: this one is unknown, has expired, or was issued"
            " for another service; get a new one, or ask the operator",
        )

    def again(self, identity: Identity) -> Identity | None:
        """Return the user of a client by the current access file; None if it may no longer connect."""
        if self._file is None:
            return ANYBODY
        try:
            return self._file.content.identity(identity.proof)
        except SowlineError:
            return None

    async def _refuse(self, why: str, given: PresentedCredentials) -> None:
        """Record the cause, which only the log and the metrics show, and wait if the address fails too often."""
        self.refused[why] += 1
        log.warning("logon refused", why=why, address=given.address)
        await asyncio.sleep(self._login_throttle.note_failure(given.address, time.monotonic()))

    async def _prove(self, given: PresentedCredentials, access: Access) -> Proof:
        if given.token is not None:
            return await self._prove_token(given.token, access)
        if given.certificate is not None and access.certificates is not None:
            if (proof := proof_of_certificate(given.certificate, access.certificates.user)) is None:
                raise NotProved("no user")
            return proof
        return NOTHING

    async def _prove_token(self, token: str, access: Access) -> Proof:
        if len(token) > TOKEN_CHARS_MAX:
            raise NotProved("malformed")
        digest = sha256(token.encode("utf-8", "replace"))
        was_known = digest.digest() in self._proofs
        proof = self._proofs.get(digest.digest()) or access.proof_of_token(digest.hexdigest())
        if proof is None:
            if access.jwt is None or token.count(".") != 2:
                raise NotProved("unknown token")
            proof = await self._prove_jwt(token, access.jwt)
            # The access file has changed while keys were fetched. Kept now, the proof would outlive `clear`.
            if self._file is None or self._file.content is not access:
                return proof
        if proof.expires is not None and proof.expires <= time.time():
            raise NotProved("expired")
        if proof.kind == "jwt" and self._keys is not None:
            await self._keys[1].keep_fresh()
            # The fetch has cleared the proofs, because the key may have been withdrawn
            # (test_a_token_of_a_key_that_was_withdrawn).
            if was_known and digest.digest() not in self._proofs:
                return await self._prove_token(token, access)
        self._proofs[digest.digest()] = proof
        if len(self._proofs) > PROOFS_MAX:
            self._proofs.popitem(last=False)
        return proof

    async def _prove_jwt(self, token: str, rules: Jwt) -> Proof:
        if self._keys is None or self._keys[0] != rules:
            self._keys = rules, Keys(rules, self._proofs.clear)
        signed = signed_by(token, rules)
        issuer = self._keys[1]
        keys = await issuer.find(signed.key_id, signed.algorithm)
        try:
            return proof_of_jwt(token, rules, signed.algorithm, keys)
        except NotProved as error:
            if signed.key_id or str(error) not in UNSIGNED:
                raise
        await issuer.look_again()  # a new key may have signed a token that names none
        keys = await issuer.find(signed.key_id, signed.algorithm)
        return proof_of_jwt(token, rules, signed.algorithm, keys)
