"""Answers that the commands read over HTTP."""

import pytest

from sowline.cli import http
from sowline.cli.connection import ConnectionOptions
from sowline.errors import SowlineError


def test_an_error_whose_body_is_no_object_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy may answer so."""
    monkeypatch.setattr(http, "get", lambda *_: http.HttpAnswer(502, {}, b'"bad gateway"'))
    with pytest.raises(SowlineError, match="got status 502"):
        http.get_json("http://127.0.0.1:1/v1/topics", ConnectionOptions())
