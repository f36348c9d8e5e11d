"""The user that a client's certificate names; TLS has verified the certificate. Pure."""

import ssl
from collections.abc import Mapping
from typing import Any, Literal

from sowline.serving.authorization.identity import Proof

Named = Literal["common_name", "email", "dns", "uri"]

_ALTERNATIVES = {"email": "email", "dns": "DNS", "uri": "URI"}

Certificate = Mapping[str, Any]
"""As `ssl.SSLSocket.getpeercert` returns it."""


def proof_of(certificate: Certificate, named: Named) -> Proof | None:
    """Return the proof of a certificate; None if it names no user, or several, in that field."""
    names = _common_names(certificate) if named == "common_name" else _alternatives(certificate, named)
    # Nobody could say which of several names is the user's (test_several_users_are_none).
    if len(names) != 1 or not names[0]:
        return None
    end = certificate.get("notAfter")
    return Proof("certificate", names[0], expires=None if end is None else ssl.cert_time_to_seconds(end))


def _common_names(certificate: Certificate) -> list[str]:
    parts = [part for parts in certificate.get("subject", ()) for part in parts]
    return [value for name, value in parts if name == "commonName"]


def _alternatives(certificate: Certificate, named: Named) -> list[str]:
    wanted = _ALTERNATIVES[named]
    return [value for name, value in certificate.get("subjectAltName", ()) if name == wanted]
