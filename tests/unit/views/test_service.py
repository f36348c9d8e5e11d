"""The views process: one view that fails stops, and says so."""

import threading
from typing import Any

import pytest

from sowline.config.settings import Settings
from sowline.config.topics import parse_topics
from sowline_views.runner import ViewRunner
from sowline_views.service import ViewsService

SETTINGS = Settings(kafka="127.0.0.1:1")
TOPICS = parse_topics("{topics: [{name: t, key: /id}], views: [{name: v, from: t}]}")


def _failing(runner: ViewRunner) -> None:
    error = KeyError("no such")
    error.add_note("t.changes [0] at offset 7")
    raise error


def test_after_a_panic_python_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next runner of each view has no native core."""
    given: list[Any] = []
    reported: list[Any] = []
    monkeypatch.setattr("sowline_views.service.native_core", lambda choice: "the core")
    monkeypatch.setattr("sowline_views.service.ViewRunner", lambda *more: given.append(more[-1]))
    service = ViewsService(SETTINGS, TOPICS, threading.Event())
    for panics in (0, 1):
        monkeypatch.setattr("sowline_views.service.panics", lambda panics=panics: panics)
        reported.append(service.details()["core"])
        service.run_each(service.runners["v"])
    assert given == ["the core", None]
    assert reported == ["native", "python"]


def test_an_unexpected_error_stops_it_visibly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service is not ready; it names the change, and says what to do."""
    service = ViewsService(SETTINGS, TOPICS, threading.Event())
    monkeypatch.setattr(ViewRunner, "run", _failing)
    service.run_each(service.runners["v"])
    assert service.not_ready() == (
        "v: expected to compute view v, got KeyError: 'no such' (t.changes [0] at offset 7). This is a fault of"
        " Sowline: report it with the traceback in the log, and restart the views service with a version that"
        " fixes it"
    )
