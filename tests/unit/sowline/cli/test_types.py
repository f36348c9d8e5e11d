"""`sowline types`: what it asks a client for, and the name of the interface."""

import re
from collections.abc import Iterator
from typing import Any, Self

import pytest
from click.testing import CliRunner

from sowline.cli import main
from sowline.wire.client_message import Message

run = CliRunner().invoke

SCHEMA = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}]}'


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """What a client was asked for. `typed` has a schema; `empty` has no records, and every other topic has one."""
    asked = []

    class FakeClient:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def topics(self) -> dict[str, Any]:
            schema = {"text": SCHEMA, "references": {}, "message": ""}
            return {
                "topics": [
                    {"name": "orders", "message_type": "json", "reader_schema": None},
                    {"name": "typed", "message_type": "avro", "reader_schema": schema},
                ]
            }

        def sow(self, topic: str, **reading: Any) -> Iterator[Message]:
            asked.append((topic, reading))
            yield Message("group_begin", topic)
            if topic != "empty":
                yield Message("sow", topic, body='{"größe": 1}'.encode())
            yield Message("group_end", topic)

    monkeypatch.setattr("sowline.cli.reading.Client", FakeClient)
    return asked


def test_the_first_records_are_the_sample(asked: list[tuple[str, dict[str, Any]]]) -> None:
    """As many as the limit allows."""
    done = run(main, ["types", "orders"])
    assert done.exit_code == 0
    assert done.stdout_bytes.decode().splitlines()[-3:] == [
        "export interface Orders {",
        '  "größe": number;',
        "}",
    ]
    assert run(main, ["types", "orders", "--limit", "7"]).exit_code == 0
    assert asked == [("orders", {"top_n": limit, "batch_size": 100}) for limit in (1000, 7)]


def test_a_schema_needs_no_sample(asked: list[tuple[str, dict[str, Any]]]) -> None:
    """No record is read."""
    done = run(main, ["types", "typed"])
    assert done.stdout == (
        "// Made by `sowline types` from the reader schema of the topic typed.\n"
        "// Every record of the topic has this type.\n\n"
        "export interface Typed {\n  id: number;\n}\n"
    )
    assert asked == []


@pytest.mark.parametrize(
    ("topic", "options", "name"),
    [
        ("orders", [], "Orders"),
        ("sales.eu-west_1", [], "SalesEuWest1"),
        ("2024", ["--name", "Order_2"], "Order_2"),
    ],
)
@pytest.mark.usefixtures("asked")
def test_the_name_of_the_interface(topic: str, options: list[str], name: str) -> None:
    """It is given, or made of the words in the topic's name."""
    assert f"\nexport interface {name} {{\n" in run(main, ["types", topic, *options]).output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["orders", "--name", "order"], "bad request: expected a --name such as Order: .* got 'order'\n"),
        (["orders", "--name", "Order {}"], "bad request: expected a --name .* got 'Order {}'\n"),
        (["orders", "--name", ""], "bad request: expected a --name .* got ''\n"),
        (["2024.eu"], "bad request: expected a --name .* got '2024Eu'\n"),
        (["^orders"], r"regex topic not supported: .* got \^orders\n"),
    ],
)
def test_what_can_not_be_named_is_refused(
    asked: list[tuple[str, dict[str, Any]]],
    arguments: list[str],
    message: str,
) -> None:
    """Before the service is asked."""
    done = run(main, ["types", *arguments])
    assert (done.exit_code, done.stdout, asked) == (1, "", [])
    assert re.fullmatch(message, done.stderr)


def test_no_records_are_no_type(asked: list[tuple[str, dict[str, Any]]]) -> None:
    """The message has what to do."""
    done = run(main, ["types", "empty"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        "not supported: expected records in empty to infer types from, got none: publish some first\n"
    )
