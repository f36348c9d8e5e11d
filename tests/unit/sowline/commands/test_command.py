"""Commands: what the headers of a log record ask for, and which are refused."""

import re

import pytest

from sowline.commands.command import (
    EXPIRATION_SECONDS_MAX,
    Command,
    CopyOf,
    Headers,
    Origin,
    command_headers,
    joined_keys,
    joined_tags,
    read_command,
    split_keys,
    split_tags,
)
from sowline.errors import SowlineError
from sowline.model.position import Position
from sowline.wire.request_fields import read_fields
from tests.property.keys import HOSTILE

UNREADABLE = b"\xff" * 41


def read(**headers: str | bytes | None) -> Command:
    """Read the `sow.*` headers given by their short names."""
    encoded = {name: value.encode() if isinstance(value, str) else value for name, value in headers.items()}
    return read_command([(f"sow.{name}", value) for name, value in encoded.items()])


def refused(headers: dict[str, str | bytes | None], sentence: str) -> None:
    """Expect headers to be refused with a sentence."""
    with pytest.raises(SowlineError, match=re.escape(sentence)) as error:
        read(**headers)
    assert error.value.reason == "bad header"


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
        origin="n-_+/4:4@77",
    )
    assert command == Command(
        "sow_delete", None, ("1", "2", "3"), "p", (12, 3), "c", 1.5, CopyOf("n-_+/4", Origin(4, 77))
    )
    assert read(command="sow_delete", filter="/a = 1").filter == "/a = 1"


@pytest.mark.parametrize("command", ["publish", "delta_publish", "sow_delete"])
def test_the_command_may_be_named(command: str) -> None:
    """The three commands have their own names."""
    assert read(command=command).command == command


def test_of_a_repeated_header_the_last_counts() -> None:
    """A forwarder appends its origin behind whatever was there."""
    headers: Headers = [("sow.origin", b"a:1@1"), ("sow.correlation", b"x"), ("sow.origin", b"b:2@2")]
    assert read_command(headers).origin == CopyOf("b", Origin(2, 2))


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
        {"origin": "1@1"},
        {"origin": ":1@1"},
        {"origin": "a b:1@1"},
        {"origin": "a:b:1@1"},
        {"origin": "a:1@"},
        {"origin": "a:@1"},
        {"origin": "a:1@-1"},
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
        {"command": "expire", "guard": "1", "origin": "a:1@1"},
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


# lists of keys


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("1,2", ("1", "2")),
        (" 1 ,, 2 ", ("1", "2")),
        ('["a,b","["]', ("a,b", "[")),
        (' [ "1" ] ', ("1",)),
        ("a[1],b", ("a[1]", "b")),
    ],
)
def test_a_list_of_keys(text: str, keys: tuple[str, ...]) -> None:
    """With commas, or as a JSON array where the text begins with a bracket."""
    assert split_keys(text) == keys
    assert (
        read_fields(b'{"command":"sow","sow_keys":"%s"}' % text.replace('"', '\\"').encode()).sow_keys == keys
    )


@pytest.mark.parametrize("text", ["[", "[1]", '["a"', '["a"],b', "[,b", '[""]', "[null]"])
def test_a_text_with_a_bracket_is_json(text: str) -> None:
    """A key that begins so must stand in an array; anything else is refused."""
    with pytest.raises(ValueError, match=r"begins with \["):
        split_keys(text)
    refused({"command": "sow_delete", "keys": text}, "begins with [")


def test_keys_are_joined_so_that_they_are_read_again() -> None:
    """Hostile ones, too; plain ones are joined with commas, as ever."""
    assert split_keys(joined_keys(HOSTILE)) == HOSTILE
    for key in HOSTILE:
        assert split_keys(joined_keys([key])) == (key,)
    assert joined_keys(["1", "2"]) == "1,2"
    for wrong in (["\ud800"], [""], ["1", ""]):
        with pytest.raises(SowlineError, match="expected SOW keys of at least one character") as error:
            joined_keys(wrong)
        assert error.value.reason == "bad header"


# tags


def test_tags_are_a_sorted_set() -> None:
    """Blanks around them do not count, nor do empty ones."""
    assert read(tags="b, a,,b ,c").tags == ("a", "b", "c")
    assert split_tags(" b, a,,b ") == ["b", "a", "b"]
    assert joined_tags(["b", "a"]) == "b,a"
    assert joined_tags("b, a") == "b,a"
    assert joined_tags([]) is None


def test_so_many_tags_so_long() -> None:
    """Sixteen of a hundred characters each."""
    most = [f"{n:0100}" for n in range(16)]
    assert read(tags=",".join(most)).tags == tuple(most)
    assert joined_tags(most) == ",".join(most)
    sentence = "expected up to 16 tags of up to 100 characters in sow.tags"
    refused({"tags": ",".join([*most, "x"])}, sentence)
    refused({"tags": "x" * 101}, sentence)
    with pytest.raises(SowlineError, match="expected up to 16 tags, got 17"):
        joined_tags([*most, "x"])
    with pytest.raises(SowlineError, match="expected tags without commas and blanks around them, got 'a,b'"):
        joined_tags(["x", "a,b"])


# origins


def test_an_origin_is_in_a_partition_that_kafka_can_have() -> None:
    """Kafka numbers partitions up to 2,147,483,647."""
    origin = read(origin="log:2147483647@1").origin
    assert origin is not None
    assert origin.source.partition == 2147483647
    refused({"origin": "log:2147483648@1"}, "expected a partition of at most 2147483647 in sow.origin")


# what a refusal says


@pytest.mark.parametrize(
    ("headers", "sentence"),
    [
        ({"command": "sow_delete", "keys": "1", "filter": "1=1"}, "got both sow.filter and sow.keys"),
        ({"command": "sow_delete", "filter": "1=1", "key": "1"}, "got both sow.filter and sow.key"),
        ({"origin_time": "5"}, "expected sow.origin_time only"),
        ({"guard": "1"}, "expected sow.guard on an expire, and only there"),
        ({"command": "expire", "guard": "1", "tags": "a", "key": "b"}, "got sow.key"),
        ({"command": UNREADABLE}, f"expected UTF-8 in header sow.command, got {UNREADABLE[:40]!r}"),
        ({"x" * 61: "1"}, f"got 'sow.{'x' * 56}'"),
        ({"command": "x" * 61}, f"got '{'x' * 60}'"),
        ({"origin_time": "x" * 61}, f"got '{'x' * 60}'"),
        ({"origin": " " * 61}, f"got '{' ' * 60}'"),
        ({"command": "sow_delete", "keys": "," * 61}, f"got '{',' * 60}'"),
        ({"command": "sow_delete", "keys": "[" * 61}, f"got '{'[' * 60}'"),
        ({"tags": "x" * 101}, f"got '{'x' * 60}'"),
        ({"correlation": "x" * 251}, "expected 1 to 250 characters in sow.correlation, got 251"),
        ({"expiration": "10000000001"}, "expected at most 10000000000 seconds"),
    ],
)
def test_a_refusal_names_what_is_wrong(headers: dict[str, str | bytes | None], sentence: str) -> None:
    """And shows not more than a line of it."""
    refused(headers, sentence)


def test_a_key_that_can_not_be_is_shown_shortly() -> None:
    """As anything else."""
    with pytest.raises(SowlineError, match=f"got '{'x' * 59}\\\\ud800'$"):
        joined_keys(["x" * 59 + "\ud800" * 2])
    with pytest.raises(SowlineError, match=f"got '{'x' * 59},'$"):
        joined_tags(["x" * 59 + ",,"])


def test_what_is_not_asked_for() -> None:
    """A publish without a number, a lifetime, a selector or anything else."""
    assert tuple(Command()) == (
        "publish",
        None,
        None,
        None,
        (0, 0),
        None,
        None,
        None,
        None,
        (),
        None,
        None,
        None,
        None,
    )
    assert read(publisher="p", sequence="7").sequence == (7, 0)
    assert read(sequence="1" * 19, publisher="p" * 250).sequence == (1111111111111111111, 0)
    assert read(origin="a:1@2", origin_time="5").origin_time == 5
    assert str(read(origin="a:1@2").origin) == "a:1@2"
