"""Commands: what the headers of a log record ask for, and which are refused."""

import pytest

from sowline.command import (
    EXPIRATION_SECONDS_MAX,
    Command,
    Headers,
    Origin,
    command_headers,
    read_command,
)
from sowline.errors import SowlineError
from sowline.position import Position


def read(**headers: str | bytes | None) -> Command:
    """Read the `sow.*` headers given by their short names."""
    encoded = {name: value.encode() if isinstance(value, str) else value for name, value in headers.items()}
    return read_command([(f"sow.{name}", value) for name, value in encoded.items()])


@pytest.mark.parametrize(
    "headers", [None, [], [("traceparent", b"00-1"), ("sowing", b"x"), ("x", None), ("", b"")]]
)
def test_without_headers_of_ours_it_is_a_publish(headers: Headers | None) -> None:
    """A plain Kafka record publishes its body; the headers of others do not matter."""
    assert read_command(headers) == Command("publish")


def test_all_headers_are_read() -> None:
    """Each header lands in its field."""
    command = read(
        command="sow_delete",
        keys="1, 2,,3 ",
        publisher="p",
        sequence="12.3",
        correlation="c",
        expiration="1.5",
        origin="4@77",
    )
    assert command == Command("sow_delete", None, ("1", "2", "3"), "p", (12, 3), "c", 1.5, Origin(4, 77))
    assert read(command="sow_delete", filter="/a = 1").filter == "/a = 1"


@pytest.mark.parametrize("command", ["publish", "delta_publish", "sow_delete"])
def test_the_command_may_be_named(command: str) -> None:
    """The three commands have their own names."""
    assert read(command=command).command == command


def test_of_a_repeated_header_the_last_counts() -> None:
    """A forwarder appends its origin behind whatever was there."""
    headers: Headers = [("sow.origin", b"1@1"), ("sow.correlation", b"x"), ("sow.origin", b"2@2")]
    assert read_command(headers).origin == Origin(2, 2)


@pytest.mark.parametrize(
    "headers",
    [
        {"what": "1"},
        {"": "1"},
        {"Command": "publish"},
        {"command": "upsert"},
        {"command": ""},
        {"command": None},
        {"command": b"\xff"},
        {"command": "publish "},
        {"publisher": "p"},
        {"sequence": "1"},
        {"publisher": "", "sequence": "1"},
        {"publisher": "p" * 251, "sequence": "1"},
        {"publisher": "p", "sequence": ""},
        {"publisher": "p", "sequence": "-1"},
        {"publisher": "p", "sequence": "1.2.3"},
        {"publisher": "p", "sequence": "1."},
        {"publisher": "p", "sequence": ".1"},
        {"publisher": "p", "sequence": "1e3"},
        {"publisher": "p", "sequence": " 1"},
        {"publisher": "p", "sequence": "٣"},
        {"publisher": "p", "sequence": "1" * 20},
        {"filter": "/a = 1"},
        {"keys": "1"},
        {"command": "publish", "keys": "1"},
        {"command": "sow_delete", "keys": "1", "filter": "/a = 1"},
        {"command": "sow_delete", "keys": " , "},
        {"command": "sow_delete", "filter": ""},
        {"command": "sow_delete", "filter": " "},
        {"command": "sow_delete", "filter": None},
        {"correlation": ""},
        {"expiration": ""},
        {"expiration": "-1"},
        {"expiration": "1."},
        {"expiration": "nan"},
        {"expiration": "1e9"},
        {"expiration": str(EXPIRATION_SECONDS_MAX + 1)},
        {"expiration": "9" * 19},
        {"origin": "1"},
        {"origin": "1@"},
        {"origin": "@1"},
        {"origin": "1@-1"},
        {"guard": "1"},
        {"command": "sow_delete", "guard": "1"},
        {"command": "expire"},
        {"command": "expire", "guard": ""},
        {"command": "expire", "guard": "x"},
        {"command": "expire", "guard": "1", "filter": "1=1"},
        {"command": "expire", "guard": "1", "keys": "1"},
        {"command": "expire", "guard": "1", "publisher": "p", "sequence": "1"},
        {"command": "expire", "guard": "1", "correlation": "c"},
        {"command": "expire", "guard": "1", "expiration": "1"},
        {"command": "expire", "guard": "1", "origin": "1@1"},
        {"command": "define", "guard": "1"},
        {"command": "define", "correlation": "c"},
    ],
)
def test_malformed_headers_are_refused(headers: dict[str, str | bytes | None]) -> None:
    """An unknown or malformed header of ours is a `bad header`, with a sentence that says what was expected."""
    with pytest.raises(SowlineError, match="expected") as error:
        read(**headers)
    assert error.value.reason == "bad header"


def test_the_owners_commands_are_read() -> None:
    """An expire names the update that set the due time, by its position with its era."""
    assert read(command="expire", guard="2/17.3") == Command("expire", guard=Position(2, 17, 3))
    assert read(command="define") == Command("define")


@pytest.mark.parametrize(
    ("smaller", "larger"), [("9", "10"), ("1", "1.1"), ("1.9", "1.10"), ("1.99", "2"), ("0", "0.1")]
)
def test_sequences_compare_as_numbers(smaller: str, larger: str) -> None:
    """`n` and `n.m` compare by their numbers, not as text."""
    assert read(publisher="p", sequence=smaller).sequence < read(publisher="p", sequence=larger).sequence


def test_headers_that_are_written_read_back() -> None:
    """What `command_headers` writes is what `read_command` reads."""
    headers = command_headers("sow_delete", keys=["1", "2"], publisher="p", sequence="5.1", correlation="c")
    assert read_command(headers) == Command("sow_delete", None, ("1", "2"), "p", (5, 1), "c")
    assert command_headers("publish") == []


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0"),
        (0.0, "0"),
        (30, "30"),
        (1.5, "1.5"),
        (0.25, "0.25"),
        (1e-9, "0.001"),
        (100, "100"),
        (1e10, "1" + "0" * 10),
    ],
)
def test_a_lifetime_is_written_in_decimal_seconds(seconds: float, text: str) -> None:
    """To the millisecond; what is shorter than that is no lifetime without an end."""
    headers = command_headers("publish", expiration=seconds)
    assert headers == [("sow.expiration", text.encode())]
    assert read_command(headers).expiration == float(text)


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 1e10 + 1])
def test_a_lifetime_that_can_not_be_is_refused(seconds: float) -> None:
    """Before it is written."""
    with pytest.raises(SowlineError, match="expected a lifetime") as error:
        command_headers("publish", expiration=seconds)
    assert error.value.reason == "bad header"
