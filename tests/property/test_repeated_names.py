"""A field that a body names twice: the last one counts, wherever the body is read."""

import asyncio
import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from sowline.config.outgoing_command import checked_key
from sowline.config.topic_definition import define_topic
from sowline.language.filter import compile_filter
from sowline.model.body import read_object
from sowline.model.difference import difference
from sowline.model.key import key_text, sow_key
from sowline.model.merge import merge, take_out
from sowline.model.select import parse_select
from sowline_materializer.store.overlay import Overlay
from tests.examples import examples
from tests.unit.materializer.core.test_applier import Core
from tests.unit.query_service.sessions import DOMAIN, Server

KEYS = (("id",), ("o", "id"))
ORDERS = define_topic(name="orders", key="/id")
FILTERS = ["/a = 1", "/a = 'x'", "/o/a = 1", "/id = '2'", "/id IN ('1', '3')", "/a IS NULL", "/o/id > 1"]
SELECTS = ["[-/,+/id]", "[-/a]", "[-/,+/o/a]", "[-/o/id]"]

ids = st.sampled_from(["1", "2", "3", '"1"', '"2"'])
scalars = st.sampled_from(["1", "2", '"x"', "null", "[1]", "{}", "1.5"])
names = st.sampled_from(['"a"', '"a"', '"\\u0061"', '"b"'])


def texts(*members: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Objects of these members, in any order; each may be there several times."""
    held = st.lists(st.one_of(*members), max_size=5)
    return held.map(lambda found: "{" + ",".join(found) + "}")


inner = texts(names.flatmap(lambda name: scalars.map(f"{name}:{{}}".format)), ids.map('"id":{}'.format))
members = names.flatmap(lambda name: (scalars | inner).map(f"{name}:{{}}".format))
objects = (inner | scalars).map('"o":{}'.format)
bodies = st.builds(
    "{}{}{}".format,
    st.just("{"),
    st.lists(members | objects | ids.map('"id":{}'.format), max_size=6).map(
        lambda found: "".join(f"{one}," for one in found)
    ),
    ids.map('"id":{}}}'.format),
).map(str.encode)


def plain(body: bytes) -> bytes:
    """The same body with each name once, as Python and JavaScript read it."""
    return json.dumps(json.loads(body)).encode()


TWICE = b'{"id":1,"a":1,"o":{"a":1,"a":2},"a":"x","o":{"id":3,"a":1},"id":2}'


@given(bodies)
@example(TWICE)
def test_the_key_is_of_the_last(body: bytes) -> None:
    """For the publisher, and for the materializer, which stores the body as it came."""
    expected = str(json.loads(body)["id"])
    assert key_text(read_object(body), (("id",),)) == checked_key(body, ORDERS, None) == expected
    core = Core()
    core.write(body)
    record = Overlay(core.store).get(sow_key(DOMAIN, expected))
    assert record is not None
    assert (record.key_text, record.body) == (expected, body)


@given(bodies, bodies)
@example(TWICE, b'{"o":{"a":1},"o":{"b":1,"b":2},"id":2}')
def test_merges_and_deltas_are_of_the_last(body: bytes, other: bytes) -> None:
    """A delta changes what those who read it say it changes; what they hold afterwards is the record."""
    assert json.loads(merge(body, other)) == json.loads(merge(plain(body), plain(other)))
    delta = difference(body, other, KEYS)
    assert json.loads(delta.body) == json.loads(difference(plain(body), plain(other), KEYS).body)
    assert json.loads(take_out(merge(body, delta.body), delta.removed)) == json.loads(other)
    assert not difference(body, plain(body), KEYS).changed


@given(bodies, st.sampled_from(SELECTS))
@example(TWICE, "[-/,+/o/a]")
def test_what_is_selected_is_of_the_last(body: bytes, text: str) -> None:
    """Also within objects."""
    select = parse_select(text)
    assert json.loads(select.apply(body)) == json.loads(select.apply(plain(body)))


@examples(40)
@given(st.lists(bodies, min_size=1, max_size=6))
@example([TWICE, b'{"id":1,"id":3,"a":2,"a":1}'])
def test_queries_find_the_last(records: list[bytes]) -> None:
    """With a scan, a hash index or a memo index, as the filter says of the record without repeats."""
    held = {str(json.loads(body)["id"]): body for body in records}
    found = asyncio.run(_found(list(held.values())))
    for text in FILTERS:
        filter = compile_filter(text)
        expected = {number for number, body in held.items() if filter.matches(json.loads(plain(body)))}
        assert expected == {number for number, body in held.items() if filter.matches(read_object(body))}
        assert found[text] == expected, text


async def _found(records: list[bytes]) -> dict[str, set[str]]:
    """Return the ids of the records that a server finds by each filter, with its indexes."""
    server = Server(more=", hash_indexes: [[/a], [/id]], indexes: [/o/a]").loaded()
    with server.patched():
        for body in records:
            server.put_text(body)
        client = server.connect()
        found = {}
        for text in FILTERS * 2:
            client.ask("sow", filter=text, batch_size=10)
            sent: list[Any] = [m for m in await client.read() if m["command"] == "sow"]
            found[text] = {str(record["data"]["id"]) for m in sent for record in m["records"]}
    return found
