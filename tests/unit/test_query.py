"""Queries: the records of one instant that match."""

from hashlib import blake2b

import orjson
import pytest

from query_service.query import CHUNK, Query
from sowline.errors import SowlineError
from sowline.filter import compile_filter
from sowline.key import sow_key
from sowline.options import Options
from tests.unit.sessions import DOMAIN, Server


def query(server: Server, text: str = "", records_max: int = 10**6) -> Query:
    """Return a query of this instant."""
    return Query(server.topic, compile_filter(text), Options(), records_max)


def found(asked: Query) -> list[int]:
    """Return the ids that a query finds."""
    return sorted(orjson.loads(record)["data"]["id"] for chunk in asked.chunks() for record in chunk)


def test_what_changes_later_is_not_found() -> None:
    """The records and the bookmark are those of the instant at which the query was made."""
    server = Server(partitions=2).loaded()
    server.put({"id": 1}, partition=0)
    server.put({"id": 2}, partition=1)
    asked = query(server)
    server.put({"id": 3})
    server.put(None, key=2, partition=1)
    assert asked.bookmark == "orders:0@0,1@0"
    assert found(asked) == [1, 2]


def test_the_hash_is_that_of_the_keys() -> None:
    """It is the XOR of the 8-byte BLAKE2b of each SOW key found, whatever their order."""
    server = Server().loaded()
    for number in range(5):
        server.put({"id": number, "n": number})
    asked = query(server, "/n >= 3")
    assert found(asked) == [3, 4]
    hashes = [blake2b(sow_key(DOMAIN, str(n)), digest_size=8).digest() for n in (3, 4)]
    assert asked.result.hash == int.from_bytes(hashes[0], "big") ^ int.from_bytes(hashes[1], "big")
    assert (asked.result.topic_matches, asked.result.matches) == (5, 2)


def test_others_get_a_turn_between_chunks() -> None:
    """A chunk looks at so many records at most, and may be empty."""
    server = Server().loaded()
    for number in range(2 * CHUNK + 1):
        server.put({"id": number})
    chunks = [len(chunk) for chunk in query(server, f"/id >= {2 * CHUNK}").chunks()]
    assert chunks == [0, 0, 1]


def test_a_body_comes_as_it_is_stored() -> None:
    """Bodies are spliced in, not written anew."""
    server = Server().loaded()
    server.put({"id": 1})
    entry = server.topic.partitions[0].records[sow_key(DOMAIN, "1")]
    server.topic.partitions[0].records[sow_key(DOMAIN, "1")] = entry._replace(body=b'{ "id":1, "p": 1.50 }')
    ((record,),) = query(server).chunks()
    assert record.endswith(b'"data":{ "id":1, "p": 1.50 }}')


def test_a_result_has_a_largest_size() -> None:
    """One more than the limit is an error; the limit is none."""
    server = Server().loaded()
    for number in range(3):
        server.put({"id": number})
    assert len(found(query(server, records_max=3))) == 3
    with pytest.raises(SowlineError) as error:
        found(query(server, records_max=2))
    assert error.value.reason == "result too large"
