"""The identity of a client, and the rights that apply to it."""

import pytest

from sowline.language.filter import compile_filter
from sowline.serving.authorization.entitlements import EVERYTHING, Entitlement, Rights, to_read
from sowline.serving.authorization.identity import ANYBODY, NOTHING, Identity, Proof

READER = Rights(to_read(Entitlement("orders")))
NARROW = Rights(to_read(Entitlement("orders", compile_filter("/a = 1"))))
ANN = Identity("ann", ("trader",), READER, Proof("token", "ann", source="x"))


def test_a_gateway_acts_with_the_rights_of_its_client() -> None:
    """They replace its own for as long as it acts for the client."""
    acting = ANN.acting_with(NARROW)
    assert (ANN.rights, acting.rights) == (READER, NARROW)
    assert (acting.user, acting.own_rights) == ("ann", READER)
    assert acting.acting_with(None) == ANN


@pytest.mark.parametrize(
    ("other", "may"),
    [
        (Identity("ann", ("risk",), READER, Proof("jwt", "ann")), True),
        (Identity("ann", ("trader",), NARROW, ANN.proof), False),
        (Identity("bob", ("trader",), READER, ANN.proof), False),
        (ANN.acting_with(NARROW), True),
    ],
    ids=["another proof", "other rights", "another user", "for a client"],
)
def test_a_connection_continues_as_the_same_user_with_the_same_rights(other: Identity, may: bool) -> None:
    """A new token may replace the one that ends."""
    assert ANN.may_become(other) is may


def test_without_an_access_file_each_client_may_do_everything() -> None:
    """It proves nothing, and has no name."""
    assert (ANYBODY.rights, ANYBODY.user, ANYBODY.proof) == (EVERYTHING, "", NOTHING)
