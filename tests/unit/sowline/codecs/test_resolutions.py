"""The entries of `<log>.schemas`: of each key the first one counts."""

import pytest

from sowline.codecs.resolutions import Resolution, Resolutions, entry_value, id_key, reader_key
from sowline.codecs.schema import Schema

ORDER = Schema("avro", '{"type": "record"}', (("money", "{}"),))
OTHER = Schema("protobuf", "message Order {}", (), "Order")


def test_the_first_entry_counts() -> None:
    """Two owners may have asked at different times: all read the same answer."""
    found = Resolutions()
    first = Resolution(ORDER, "orders-value", 3)
    for resolution in (first, Resolution(None), Resolution(OTHER)):
        found.add(id_key(7), entry_value(resolution))
    assert found.writer(7) == first
    assert found.writer(8) is None
    assert found.writers == {7: first}


@pytest.mark.parametrize(
    "resolution", [Resolution(None), Resolution(None, problem="expected AVRO"), Resolution(OTHER)]
)
def test_every_answer_is_kept(resolution: Resolution) -> None:
    """Also that there is no schema, or none that can be used."""
    found = Resolutions()
    found.add(id_key(2**62), entry_value(resolution))
    assert found.writer(2**62) == resolution


def test_reader_schemas_are_known_by_their_digests() -> None:
    """One digest is one schema: an entry under another is no entry."""
    found = Resolutions()
    found.add(reader_key(ORDER.digest), entry_value(Resolution(OTHER)))
    assert found.reader(ORDER.digest) is None
    found.add(reader_key(ORDER.digest), entry_value(Resolution(ORDER)))
    assert found.has_one_reader
    found.add(reader_key(OTHER.digest), entry_value(Resolution(OTHER)))
    assert (found.reader(ORDER.digest), found.reader(OTHER.digest)) == (ORDER, OTHER)
    assert not found.has_one_reader


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, entry_value(Resolution(ORDER))),
        (b"id:7", None),
        (b"id:7", b"{"),
        (b"id:7", b'{"schema": 1}'),
        (b"id:7", b'{"schema": {"type": "thrift", "text": ""}}'),
        (b"id:seven", entry_value(Resolution(ORDER))),
        ("id:\u0667".encode(), entry_value(Resolution(ORDER))),
        (b"\xff", entry_value(Resolution(ORDER))),
        (b"reader:", entry_value(Resolution(None))),
    ],
)
def test_what_is_no_entry_changes_nothing(key: bytes | None, value: bytes | None) -> None:
    """Anyone may write to a topic of Kafka."""
    found = Resolutions()
    found.add(key, value)
    assert found.writers == {}
    assert found.has_one_reader
