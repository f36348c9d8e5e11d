"""The writing commands: what they ask of a client."""

import io
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import click
import pytest
from click.testing import CliRunner

from sowline.cli import main, writing
from sowline.client.writing import Written
from sowline.errors import SowlineError

Asked = list[tuple[Any, ...]]
run = CliRunner().invoke


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What a client was asked for, of which nothing reaches Kafka: the method, and what was given to it."""
    asked: Asked = []

    def method(name: str, answer: Any = None) -> Callable[..., Any]:
        def called(_: object, *given: Any, **named: Any) -> Any:
            asked.append((name, *given, {name: value for name, value in named.items() if value is not None}))
            return answer

        return called

    class FakeClient:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        publish = method("publish")
        delta_publish = method("delta_publish")
        deltas = method("deltas", ["noop", "applied"])
        sow_delete = method("sow_delete", 3)

        def flush(self) -> None:
            pass

        def publish_all(self, topic: str, records: Iterable[str], **named: Any) -> Written:
            lines = list(records)
            asked.append(("publish_all", topic, lines, named))
            return Written(len(lines), {"applied": len(lines)}, f"{topic}:0@1")

    monkeypatch.setattr("sowline.cli.writing.Client", FakeClient)
    return asked


@pytest.mark.parametrize(("command", "method"), [("publish", "publish"), ("delta-publish", "delta_publish")])
def test_a_lifetime_and_tags_go_with_each_record(asked: Asked, command: str, method: str) -> None:
    """The lifetime in seconds, 0 for none; without it the topic's counts."""
    assert run(main, [command, "orders", "{}", "[]", "--expiration", "1.5"]).exit_code == 0
    assert run(main, [command, "orders", "--expiration", "0"], input="{}\n").exit_code == 0
    assert run(main, [command, "orders", "{}", "--tag", "a", "--tag", "b"]).exit_code == 0
    expected: list[tuple[str, dict[str, Any]]] = [
        ("{}", {"expiration": 1.5}),
        ("[]", {"expiration": 1.5}),
        ("{}", {"expiration": 0.0}),
        ("{}", {"tags": ("a", "b")}),
    ]
    assert asked == [(method, "orders", data, {"tags": (), **named}) for data, named in expected]


def test_what_sow_prints_is_published_and_waited_for(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The service refuses other fields than `sow_key` and `data`, so they do not go to it."""
    lines = (
        '{"command":"group_begin","topic":"files","bookmark":"files:0@1"}\n'
        '{"command":"sow","topic":"files","sow_key":"a \\"b\\"","updated_at":"files:0@1","data":{"n":1.50}}\n'
        '{"command":"group_end","topic":"files","bookmark":"files:0@1","records":1,"hash":"00"}\n'
    )
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    main(["publish", "files", "--keyed", "--wait"], standalone_mode=False)
    [(_, _, records, named)] = asked
    assert (records, named["key"]) == (['{"sow_key":"a \\"b\\"","data":{"n":1.50}}'], None)
    assert capfd.readouterr().out == '{"commands":1,"outcomes":{"applied":1},"effect":"files:0@1"}\n'


@pytest.mark.parametrize(("command", "is_delta"), [("publish", False), ("delta-publish", True)])
def test_outcomes_are_printed_with_a_key_too(
    asked: Asked, capfd: pytest.CaptureFixture[str], command: str, is_delta: bool
) -> None:
    """As without one; a key names a single record."""
    main([command, "files", "--key", "k", "--wait", '{"n":1}'], standalone_mode=False)
    [(_, _, records, named)] = asked
    assert (records, named["key"], named["delta"]) == (['{"n":1}'], "k", is_delta)
    assert capfd.readouterr().out == '{"commands":1,"outcomes":{"applied":1},"effect":"files:0@1"}\n'
    refused = run(main, [command, "files", "--key", "k", "--wait", "{}", "{}"])
    assert (refused.exit_code, len(asked)) == (1, 1)


@pytest.mark.parametrize("wait", [(), ("--wait",)])
def test_progress_is_shown_of_records_however_they_are_written(
    asked: Asked,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    wait: tuple[str, ...],
) -> None:
    """Each record is counted as it is read, and the end of the input begins the wait; nothing of that on output."""
    noted: list[Any] = []

    @contextmanager
    def reported_if_slow(what: str) -> Iterator[Callable[[], None]]:
        yield lambda: noted.append(what)

    monkeypatch.setattr(writing, "ProgressLine", lambda: lambda *given: noted.append(given))
    monkeypatch.setattr(writing, "reported_if_slow", reported_if_slow)
    main(["publish", "orders", "{}", "{}", *wait], standalone_mode=False)
    waits = "waiting until queries see them" if wait else "waiting until Kafka has the records"
    assert noted == [("published", 1), ("published", 2), waits]
    assert capfd.readouterr().out.count("\n") == len(wait)


Typed = Callable[[str], None]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Sets what the user of a terminal types."""

    def typed(text: str) -> None:
        terminal = io.StringIO(text)
        terminal.isatty = lambda: True  # type: ignore[method-assign]
        monkeypatch.setattr(sys, "stdin", terminal)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    return typed


@pytest.mark.parametrize(
    ("selector", "named", "what"),
    [
        (("--filter", "/a = 1"), {"filter": "/a = 1"}, "every record that matches /a = 1"),
        (("--key", "17"), {"keys": ["17"]}, "the record with the SOW key 17"),
        (("--key", "1", "--key", "2"), {"keys": ["1", "2"]}, "the records with the SOW keys 1, 2"),
        (("--data", '{"id":1}'), {"data": '{"id":1}'}, 'the record with the key of {"id":1}'),
    ],
)
def test_a_delete_on_a_terminal_is_confirmed(
    asked: Asked,
    typed: Typed,
    capfd: pytest.CaptureFixture[str],
    selector: tuple[str, ...],
    named: dict[str, Any],
    what: str,
) -> None:
    """The question names the topic, the service and the records; only `y` deletes, and `--yes` skips the question."""
    url = "http://127.0.0.1:1"
    command = ["delete", "orders", "--url", url, *selector]
    question = f"Delete from orders at {url} {what}? [y/N]: "
    for answer in ("n\n", "\n", ""):
        typed(answer)
        with pytest.raises(click.Abort):
            main(command, standalone_mode=False)
        assert capfd.readouterr().err.startswith(question)
    assert asked == []
    typed("y\n")
    main(command, standalone_mode=False)
    assert capfd.readouterr().err == question
    typed("")
    main([*command, "--yes"], standalone_mode=False)
    assert capfd.readouterr().err == ""
    assert asked == [("sow_delete", "orders", {"tags": (), **named})] * 2


def test_a_delete_in_a_pipe_is_not_asked_about(asked: Asked, capfd: pytest.CaptureFixture[str]) -> None:
    """Nobody is there to answer."""
    main(["delete", "orders", "--filter", "1=1", "--url", "http://127.0.0.1:1"], standalone_mode=False)
    assert len(asked) == 1
    assert capfd.readouterr().err == ""


def test_a_lifetime_that_is_none_is_refused(asked: Asked) -> None:
    """Before anything is written."""
    result = run(main, ["publish", "orders", "{}", "--expiration", "-1"])
    assert (result.exit_code, asked) == (2, [])


@pytest.mark.parametrize(
    ("deltas", "typed", "stream"),
    [
        (["if ~ then {} end"], "", "if ~ then {} end"),
        (['{..,"a":1}', "if ~ then {} end"], "", '[{..,"a":1},if ~ then {} end]'),
        ([], '{"a":1}\n~\n', '{"a":1}\n~\n'),
    ],
)
def test_deltas_are_a_stream(
    asked: Asked,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    deltas: list[str],
    typed: str,
    stream: str,
) -> None:
    """Given as arguments, or on standard input; what became of each is printed."""
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    more = ["--wait", "--tag", "t", "--change-id", "c"]
    main(["delta", "reviews", "k", *deltas, *more], standalone_mode=False)
    assert capfd.readouterr().out == '{"outcome":"noop"}\n{"outcome":"applied"}\n'
    assert asked == [("deltas", "reviews", "k", stream, {"wait": True, "tags": ("t",), "change_id": "c"})]


def test_what_came_before_a_refused_record_is_written(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says so: the user must not send it again, nor believe that what follows is there."""

    def refuse(_: object, topic: str, body: str, **named: Any) -> None:
        if body == "{}":
            raise SowlineError("key missing", "expected the key field /id, got none")
        asked.append((topic, body))

    monkeypatch.setattr(f"{writing.__name__}.Client.publish", refuse)
    done = run(main, ["publish", "orders", '{"id":1}', "{}", '{"id":2}'])
    assert asked == [("orders", '{"id":1}')]
    assert done.exit_code == 1
    assert "record 2: expected the key field /id, got none; the records before it are written" in done.stderr


def test_a_keyboard_is_asked_for_records(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise a forgotten argument looks like a command that hangs."""
    keyboard = io.StringIO('{"id":1}\n')
    monkeypatch.setattr(keyboard, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", keyboard)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    main(["publish", "orders"], standalone_mode=False)
    assert [one[2] for one in asked] == ['{"id":1}']
    assert "reading records as JSON, one per line; Ctrl-D ends" in capsys.readouterr().err
