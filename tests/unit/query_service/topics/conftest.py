"""What tests of followers share."""

import pytest

from sowline.kafka.changes_driver import ChangesPartition


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[ChangesPartition]:
    """What was said to be loaded."""
    monkeypatch.setattr("sowline.kafka.changes_driver.LOOK_SECONDS", 0.0)
    return []
