"""Who a client certificate is, as TLS tells of it."""

import pytest

from sowline.serving.authorization.certificates import Named, proof_of

CERTIFICATE = {
    "subject": ((("organizationName", "Bank"),), (("commonName", "ada"),)),
    "subjectAltName": (
        ("DNS", "a.bank"),
        ("DNS", "b.bank"),
        ("email", "ada@bank"),
        ("URI", "spiffe://bank/ada"),
    ),
    "notAfter": "Nov 22 12:00:00 2030 GMT",
}


@pytest.mark.parametrize(
    ("named", "user"), [("common_name", "ada"), ("email", "ada@bank"), ("uri", "spiffe://bank/ada")]
)
def test_the_user_of_a_certificate(named: Named, user: str) -> None:
    """Is where the access file says, until the certificate ends."""
    proof = proof_of(CERTIFICATE, named)
    assert proof is not None
    assert (proof.kind, proof.user, proof.expires) == ("certificate", user, 1921579200)


def test_several_users_are_none() -> None:
    """Nobody could say which; nor is there one where none is named."""
    assert proof_of(CERTIFICATE, "dns") is None
    assert proof_of({"subject": ()}, "common_name") is None
    assert proof_of({"subject": ((("commonName", ""),),)}, "common_name") is None
