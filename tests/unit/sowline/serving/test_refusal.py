"""The errors that requests of all kinds are refused with, and their statuses."""

import pytest

from contract.reasons import REASONS
from sowline.errors import SowlineError
from sowline.serving.refusal import STATUSES, left_topic, no_sow, unforeseen


def test_statuses_are_of_reasons_that_exist() -> None:
    """A reason that was renamed would get the status of all others."""
    assert STATUSES.keys() <= {reason.code for reason in REASONS}
    assert all(401 <= status <= 503 for status in STATUSES.values())


def test_a_defect_quotes_nothing() -> None:
    """The text of an exception may have data that this client may not see."""
    error = unforeseen("query", ValueError("secret"))
    assert error.reason == "internal"
    assert "ValueError" in error.message
    assert "secret" not in error.message


@pytest.mark.parametrize(
    ("error", "reason"), [(left_topic("orders"), "invalid topic"), (no_sow("orders"), "no sow")]
)
def test_a_refusal_names_the_topic(error: SowlineError, reason: str) -> None:
    """And says what was expected of it."""
    assert error.reason == reason
    assert error.message.startswith("expected a topic ")
    assert "got orders" in error.message
