"""What is not restored: refused before anything is written."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.model.position import Position
from sowline_materializer.admin import restore
from sowline_materializer.admin.backup import Backup, BackupPart
from sowline_materializer.core.checkpoint import Checkpoint

VIEW = parse_topics(
    "topics: [{name: orders, key: /id, partitions: 1}]\n"
    "views: [{name: totals, from: orders, grouping: [/q], projection: [COUNT(1) AS /n]}]"
).named("totals")


def test_a_view_is_restored_over_its_log_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reflects positions of its source, which may be another one: new states would count as old ones."""
    cluster = SimpleNamespace(
        groups_reading=lambda log: [],
        is_empty_group=lambda group: True,
        ensure_topic=lambda definition: None,
        starts=lambda topic, numbers: dict.fromkeys(numbers, 0),
        ends=lambda topic, numbers: dict.fromkeys(numbers, 0),
        topic_id=lambda topic: f"another {topic}",
    )
    monkeypatch.setattr(restore, "Cluster", lambda kafka: cluster)
    checkpoint = Checkpoint(
        Position(0, 9), definition=VIEW.digest, log_id="log", reflected={0: Position(0, 20)}
    )
    backup = Backup(Path("b"), "totals", VIEW.digest, [BackupPart("0.records.gz", "", 0, checkpoint)])
    nothing: Any = {}
    with pytest.raises(SowlineError, match=r"It computes its records from orders$") as refused:
        restore.restore(nothing, "group", VIEW, backup, ())
    assert refused.value.reason == "not supported"
