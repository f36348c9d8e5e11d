"""The HTTP answers to refusals."""

import pytest

from sowline.errors import SowlineError
from sowline.serving.error_response import refused


@pytest.mark.parametrize(("seconds", "header"), [(0.2, "1"), (3.0, "3"), (3.1, "4")])
def test_a_client_retries_after_whole_seconds(seconds: float, header: str) -> None:
    """Rounded up: at once, or a moment too early, it would be refused again."""
    answer = refused(SowlineError("busy", "too many"), retry_seconds=seconds)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, header)
