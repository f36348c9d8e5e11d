"""Errors of the core."""

import pytest

from sowline.errors import StartAgain
from sowline_materializer.core.errors import NeedsOwnSteps, NotApplicable, StoreDamaged


@pytest.mark.parametrize("kind", [NotApplicable, NeedsOwnSteps])
def test_a_record_that_can_not_be_applied_is_named(kind: type[NotApplicable | NeedsOwnSteps]) -> None:
    """By its offset; it is no refusal, which would be the same at each replay."""
    error = kind(17)
    assert (error.offset, str(error)) == (17, "17")


def test_a_worker_starts_again_with_another_store() -> None:
    """The partition is recovered from another source then."""
    assert issubclass(StoreDamaged, StartAgain)
    assert not issubclass(NotApplicable, StartAgain)
