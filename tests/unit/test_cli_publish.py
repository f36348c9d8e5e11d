"""The publishing commands: what they ask of a client."""

from typing import Any, Self

import pytest
from click.testing import CliRunner

from sowline.cli import main

Asked = list[tuple[str, str, str, float | None]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What a client was asked for, of which nothing reaches Kafka."""
    asked: Asked = []

    class FakeClient:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: Any) -> None:
            pass

        def publish(self, topic: str, data: str, expiration: float | None = None) -> None:
            asked.append(("publish", topic, data, expiration))

        def delta_publish(self, topic: str, data: str, expiration: float | None = None) -> None:
            asked.append(("delta_publish", topic, data, expiration))

    monkeypatch.setattr("sowline.cli.data.Client", FakeClient)
    return asked


@pytest.mark.parametrize(("command", "method"), [("publish", "publish"), ("delta-publish", "delta_publish")])
def test_a_lifetime_goes_with_each_record(asked: Asked, command: str, method: str) -> None:
    """In seconds, 0 for none; without it the topic's counts."""
    run = CliRunner().invoke
    assert run(main, [command, "orders", "{}", "[]", "--expiration", "1.5"]).exit_code == 0
    assert run(main, [command, "orders", "--expiration", "0"], input="{}\n").exit_code == 0
    assert run(main, [command, "orders", "{}"]).exit_code == 0
    expected = [("{}", 1.5), ("[]", 1.5), ("{}", 0.0), ("{}", None)]
    assert asked == [(method, "orders", data, expiration) for data, expiration in expected]


def test_a_lifetime_that_is_none_is_refused(asked: Asked) -> None:
    """Before anything is written."""
    result = CliRunner().invoke(main, ["publish", "orders", "{}", "--expiration", "-1"])
    assert (result.exit_code, asked) == (2, [])
