"""Input that can't be applied ends on the dead-letter topic, and everything around it is applied."""

import uuid
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import orjson
import pytest

from sowline.serving.http.tails import UNREADABLE_NOTE
from tests.integration.changes import outcomes_of
from tests.integration.raw_headers import produce_raw
from tests.integration.services import System, headers_of, http_text, system

BYTES_MAX = 8000

Headers = Sequence[tuple[str, bytes | None]]
MINE = ("mine", b"kept")


class Bad(NamedTuple):
    """A record that is refused, and the reason that it is refused for."""

    reason: str
    value: bytes | None
    headers: Headers = ()
    key: bytes | None = None

    @property
    def is_readable(self) -> bool:
        """Whether its header names are UTF-8."""
        return all(name.isascii() for name, _ in self.headers)


DEEP = b'{"id": "deep", "a": ' + b'{"a": ' * 300 + b"1" + b"}" * 301
DELETE: tuple[str, bytes] = ("sow.command", b"sow_delete")
BAD = {
    "not JSON": Bad("not json", b'{"id": 1'),
    "bytes that are not text": Bad("not json", b"\xff\xfe\x00"),
    "nothing at all": Bad("not json", b""),
    "a number beyond any float": Bad("not json", b'{"id": 1, "x": 1e400}'),
    "half of a surrogate pair": Bad("not json", b'{"id": "\\ud800"}'),
    "an array": Bad("not an object", b'[{"id": 1}]'),
    "a string": Bad("not an object", b'"id"'),
    "null": Bad("not an object", b"null"),
    "no key field": Bad("key missing", b'{"qty": 1}'),
    "a null key": Bad("key null", b'{"id": null}'),
    "an empty key": Bad("key empty", b'{"id": ""}'),
    "a fraction as key": Bad("bad key", b'{"id": 1.0}'),
    "an object as key": Bad("bad key", b'{"id": {"a": 1}}'),
    "an array as key": Bad("bad key", b'{"id": [1]}'),
    "an integer as key that no 64 bits hold": Bad("bad key", b'{"id": 123456789012345678901}'),
    "a key that is too long": Bad("bad key", orjson.dumps({"id": "é" * 2500})),
    "a Kafka key that is not text": Bad("bad key", None, [DELETE], b"\xff"),
    "an unknown header": Bad("bad header", b'{"id": 1}', [("sow.color", b"red")]),
    "an unknown command": Bad("bad header", b'{"id": 1}', [("sow.command", b"upsert")]),
    "a header that is not text": Bad("bad header", b'{"id": 1}', [("sow.correlation", b"\xff")]),
    "a malformed sequence": Bad(
        "bad header", b'{"id": 1}', [("sow.publisher", b"p"), ("sow.sequence", b"1.2.3")]
    ),
    "a sequence without a publisher": Bad("bad header", b'{"id": 1}', [("sow.sequence", b"1")]),
    "a malformed origin": Bad("bad header", b'{"id": 1}', [("sow.origin", b"zero")]),
    "an origin in no log": Bad("bad header", b'{"id": 1}', [("sow.origin", b"1@99999999999")]),
    "a lifetime beyond all time": Bad("bad header", b'{"id": 1}', [("sow.expiration", b"9" * 19)]),
    "a malformed lifetime": Bad("bad header", b'{"id": 1}', [("sow.expiration", b"soon")]),
    "two selectors": Bad("bad header", None, [DELETE, ("sow.filter", b"1=1"), ("sow.keys", b"1")]),
    "a selector and a body": Bad("bad header", b'{"id": 1}', [DELETE, ("sow.filter", b"1=1")]),
    "a selector on a publish": Bad("bad header", b'{"id": 1}', [("sow.filter", b"1=1")]),
    "no key of any kind": Bad("key missing", None, [DELETE]),
    "a header name that is not text": Bad("bad header", b'{"id": "of no name"}', [("na\udcefve", b"x")]),
    "a delta beside a name that is not text": Bad(
        "bad header", b'{"id": "big"}', [("sow.command", b"delta_publish"), ("\udcff", None)], b"big"
    ),
    "too large": Bad("too large", orjson.dumps({"id": 1, "text": "x" * BYTES_MAX})),
    "a merge that grows too large": Bad(
        "too large", orjson.dumps({"id": "big", "more": "x" * 5000}), [("sow.command", b"delta_publish")]
    ),
    "a merge that goes too deep": Bad("too deep", DEEP, [("sow.command", b"delta_publish")]),
    "a bad filter": Bad("bad filter", None, [DELETE, ("sow.filter", b"/qty = 1 AND")]),
}


class Refused:
    """What became of the bad records."""

    def __init__(self, made: System, offsets: dict[str, int]) -> None:
        self.topic = made.topics.topics[0].name
        self.offsets = offsets
        self.materializer = made.service("materializer").start().wait_ready()
        self.query = made.service("query_service").start().wait_ready()
        made.wait_settled(self.query.url, self.topic)
        self.dead = {message.key(): message for message in made.read(made.topic(self.topic).kafka.dead)}
        self.outcomes = outcomes_of(made, self.topic)


def write_all(made: System) -> dict[str, int]:
    """Write each bad record behind a good one; returns the bad ones' offsets."""
    topic = made.topics.topics[0].name
    offsets = {}
    made.produce(topic, orjson.dumps({"id": "big", "text": "x" * 5000}))
    made.produce(topic, DEEP)
    for number, (name, bad) in enumerate(BAD.items()):
        made.produce(topic, orjson.dumps({"id": f"good {number}"}))
        headers = [*bad.headers, MINE]
        if bad.is_readable:
            offsets[name] = made.produce(topic, bad.value, bad.key, headers=headers)
        else:
            raw = [(name.encode(errors="surrogateescape"), content) for name, content in headers]
            offsets[name] = produce_raw(made.kafka, topic, bad.value, bad.key, raw)
    made.produce(topic, b'{"id": "last"}')
    return offsets


@pytest.fixture(scope="module")
def refused(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refused]:
    """All kinds of bad records, written before the materializer starts, so that its batches hold good and bad."""
    name = f"t{uuid.uuid4().hex[:12]}-bad"
    topics = [{"name": name, "key": ["/id"], "record_bytes_max": BYTES_MAX}]
    with system(kafka, tmp_path_factory.mktemp("bad"), topics) as made:
        made.create_topics()
        yield Refused(made, write_all(made))


@pytest.mark.parametrize("name", BAD)
def test_bad_record(refused: Refused, name: str) -> None:
    """A bad record lies on the dead-letter topic as it came, with its reason, and its outcome is told."""
    bad, offset = BAD[name], refused.offsets[name]
    letter = refused.dead[f"0@{offset}".encode()]
    headers = headers_of(letter)
    assert headers.pop("sow.reason").decode() == bad.reason
    assert headers.pop("sow.message").decode()
    assert headers.pop("sow.original_key", None) == bad.key
    kept = [*bad.headers, MINE] if bad.is_readable else [("sow.command", b"unreadable")]
    assert headers == dict(kept)
    assert letter.value() == bad.value
    assert refused.outcomes[0, str(offset)] == f"dead:{bad.reason}"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("half of a surrogate pair", "got half of a surrogate pair at line 1, column 9: write both halves"),
        (
            "an integer as key that no 64 bits hold",
            "got a number beyond 64 bits (about 1.23457e+20): write it",
        ),
        ("bytes that are not text", "got the byte 0xff at offset 0: encode the text as UTF-8"),
        ("an empty key", "got an empty string"),
    ],
)
def test_a_dead_letter_says_what_to_do(refused: Refused, name: str, advice: str) -> None:
    """What was expected, what came, and what to do."""
    headers = headers_of(refused.dead[f"0@{refused.offsets[name]}".encode()])
    assert advice in headers["sow.message"].decode()


def test_good_records_around_bad_ones(refused: Refused) -> None:
    """No good record of a batch is missing, no bad one has left a trace, and nothing else was refused."""
    lines = http_text(f"{refused.query.url}/v1/topics/{refused.topic}/sow", b"{}").splitlines()
    found = {orjson.loads(line)["data"]["id"] for line in lines}
    assert found == {f"good {number}" for number in range(len(BAD))} | {"big", "deep", "last"}
    assert len(refused.dead) == len(BAD)


def test_the_log_is_shown_with_a_note(refused: Refused) -> None:
    """A record whose headers can't be read is shown with its key and value, and a note; others have none."""
    answer = http_text(f"{refused.query.url}/v1/topics/{refused.topic}/log?limit=1000")
    shown = {message["offset"]: message for message in orjson.loads(answer)["messages"]}
    for name, offset in refused.offsets.items():
        bad, message = BAD[name], shown[offset]
        assert message.get("note") == (None if bad.is_readable else UNREADABLE_NOTE)
        if not bad.is_readable:
            assert (message["key"], message["value"]) == (
                None if bad.key is None else bad.key.decode(),
                (bad.value or b"").decode(),
            )


def test_dead_letters_are_counted(refused: Refused) -> None:
    """The metrics count what was refused."""
    assert refused.materializer.metric("sowline_dead_letters_total") == len(BAD)
    assert refused.materializer.metric('sowline_dead_letters_total{reason="key null"}') == 1
