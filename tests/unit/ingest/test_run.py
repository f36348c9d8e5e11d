"""Running a pipeline: what it does to the process that it has."""

import os
from pathlib import Path
from typing import NoReturn

import pytest

from sowline.errors import SowlineError
from sowline_ingest import run as module

FILE = """
name: shop
topic: orders
sources:
  raw: {kafka: raw, format: json, schema: id BIGINT}
key: id
checkpoint: var
"""


@pytest.mark.parametrize(
    ("more", "given", "lowered"),
    [("", None, []), ("", 10.0, [19]), ("rows_per_second: 10\n", None, [19])],
)
def test_a_limit_lowers_the_priority(
    more: str, given: float | None, lowered: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before there is a JVM, which has that of the process that starts it."""
    asked: list[int] = []

    def job(file: Path, *, rows_per_second: float | None) -> NoReturn:
        assert asked == lowered
        raise SowlineError("invalid topic", f"{file.name} {rows_per_second}")

    monkeypatch.setattr(os, "nice", asked.append)
    monkeypatch.setattr(module, "set_up_logs", lambda: None)
    monkeypatch.setattr(module, "Job", job)
    file = tmp_path / "shop.yaml"
    file.write_text(FILE + more)
    with pytest.raises(SowlineError, match=rf"shop\.yaml {given}"):
        module.run(file, rows_per_second=given, on_running=lambda _: None)
    assert asked == lowered
