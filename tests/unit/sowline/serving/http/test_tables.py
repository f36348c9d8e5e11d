"""Answers with a table: two passes over one instant, and how a stream ends."""

import time
from collections.abc import AsyncIterator
from typing import Any, cast

import pyarrow as pa
import pytest
from starlette.responses import StreamingResponse

from sowline.client.table import require_whole
from sowline.errors import SowlineError
from sowline.language.filter import compile_filter
from sowline.language.filter.functions import clock
from sowline.serving.http.tables import table_response
from sowline.serving.outbox.group import RecordPortion
from sowline.serving.result import Result


class Made:
    """A query over records that are here. Each time it is begun, it is of the next instant."""

    def __init__(self, bookmark: str, records: list[bytes], failure: SowlineError | None = None) -> None:
        self.bookmark = bookmark
        self.result = Result(warnings=["some"])
        self.is_closed = False
        self.read = 0
        self._records = records
        self._failure = failure

    async def records(self) -> AsyncIterator[RecordPortion]:
        """Yield one record of each portion, as a filter that few records match does."""
        for record in self._records:
            self.read += 1
            yield RecordPortion("orders", [record])
        if self._failure is not None:
            raise self._failure


class Service:
    """Begins queries, each as the script has it, and notes how."""

    def __init__(self, *script: Made) -> None:
        self.script = list(script)
        self.begun: list[tuple[Made, dict[str, Any]]] = []

    async def begin(self, fields: dict[str, Any]) -> Made:
        """Begin the next query."""
        self.begun.append((self.script.pop(0), fields))
        return self.begun[-1][0]

    async def close(self, query: Made) -> None:
        """End a query."""
        query.is_closed = True

    async def answer(self, **fields: Any) -> tuple[StreamingResponse, bytes]:
        """Return the response, and its body."""
        response = await table_response({"topic": "orders", **fields}, self.begin, self.close)
        stream = cast("StreamingResponse", response)
        return stream, b"".join([cast("bytes", part) async for part in stream.body_iterator])

    @property
    def is_over(self) -> bool:
        """Whether all that began has ended."""
        return all(query.is_closed for query, _ in self.begun)


def records(*values: str) -> list[bytes]:
    """Return records as they are sent."""
    return [b'{"sow_key":"%d","data":{"v":%b}}' % (at, value.encode()) for at, value in enumerate(values)]


async def test_types_are_found_in_a_first_pass() -> None:
    """Over the same instant, without the demands on freshness, which it has met."""
    service = Service(Made("b1", records("1", "2")), Made("b1", records("1", "2")))
    response, body = await service.answer(at_least="b0", filter="/v > 0")
    read = pa.ipc.open_stream(body).read_all()
    assert read.to_pylist() == [{"v": 1}, {"v": 2}]
    assert read.schema.metadata == {b"sowline.topic": b"orders", b"sowline.bookmark": b"b1"}
    assert [fields for _, fields in service.begun] == [
        {"topic": "orders", "at_least": "b0", "filter": "/v > 0"},
        {"topic": "orders", "bookmark": "b1", "filter": "/v > 0"},
    ]
    assert response.headers["sowline-bookmark"] == "b1"
    assert response.headers["sowline-warning"] == "some"
    assert service.is_over


async def test_both_passes_have_one_time() -> None:
    """A record that begins to match in between would have fields without a column."""
    service = Service(Made("b1", records("1")), Made("b1", records("1")))
    before = time.time()
    await service.answer(filter="/v < UNIX_TIMESTAMP() AND /day <= TODAY('+01:00')")
    first, second = (compile_filter(fields["filter"]) for _, fields in service.begun)
    assert first == second
    assert not first.nondeterministic
    today = clock.today("+01:00")
    assert first.matches({"v": before - 1, "day": today})
    assert not first.matches({"v": time.time(), "day": today})


async def test_a_filter_of_chance() -> None:
    """Two passes can't have the same records."""
    service = Service()
    with pytest.raises(
        SowlineError, match="UUID7 at column 6 can't be used in the filter of a table"
    ) as refused:
        await service.answer(filter="/v < UUID7()")
    assert refused.value.reason == "bad filter"


async def test_types_of_all_columns_need_no_first_pass() -> None:
    """One query, as it was asked for; records that came one by one are one batch."""
    service = Service(Made("b1", records("1", "2", "3")))
    _, body = await service.answer(columns={"/v": "double"}, filter="/v < UNIX_TIMESTAMP()")
    assert service.begun[0][1]["filter"] == "/v < UNIX_TIMESTAMP()"
    read = pa.ipc.open_stream(body).read_all()
    assert read.to_pylist() == [{"v": 1.0}, {"v": 2.0}, {"v": 3.0}]
    assert read["v"].num_chunks == 1
    assert service.is_over


async def test_a_time_in_the_future() -> None:
    """It is another instant when it is asked for again: the positions of the first one count."""
    service = Service(Made("b1", records("1")), Made("b2", records("2")), Made("b1", records("1")))
    _, body = await service.answer(bookmark="21260101T000000Z")
    assert pa.ipc.open_stream(body).read_all().to_pylist() == [{"v": 1}]
    assert [fields["bookmark"] for _, fields in service.begun] == [
        "21260101T000000Z",
        "21260101T000000Z",
        "b1",
    ]
    assert service.is_over


async def test_an_instant_that_is_gone() -> None:
    """Other records would not fit the types that were found."""
    service = Service(Made("b1", records("1")), Made("b2", records("2")))
    with pytest.raises(SowlineError, match="expected the records at b1 a second time") as refused:
        await service.answer()
    assert refused.value.reason == "bookmark_expired"
    assert service.is_over


@pytest.mark.parametrize("columns", [(), {"/v": "int64"}])
async def test_an_error_before_the_first_batch(columns: Any) -> None:
    """It is the answer; nothing stays open."""
    service = Service(Made("b1", records('"a"', "1")), Made("b1", records('"a"', "1")))
    with pytest.raises(SowlineError) as refused:
        await service.answer(columns=columns)
    assert refused.value.reason == "bad column"
    assert service.is_over


async def test_an_error_after_a_batch() -> None:
    """The stream ends with it."""
    lost = SowlineError("shard unavailable", "a query service was lost")
    service = Service(Made("b1", records(*["1"] * 1000), lost))
    _, body = await service.answer(columns={"/v": "int64"})
    with pytest.raises(SowlineError, match="a query service was lost"):
        require_whole(body)
    assert service.is_over


async def test_a_batch_is_sent_before_the_next_is_read() -> None:
    """Memory is bounded by a batch, however many records there are."""
    query = Made("b1", records(*["1"] * 5000))
    response = await table_response(
        {"topic": "orders", "columns": {"/v": "int64"}}, Service(query).begin, Service().close
    )
    parts = cast("StreamingResponse", response).body_iterator
    read = [query.read async for _ in parts]
    assert read == [1000, 2000, 3000, 4000, 5000, 5000]


async def test_the_batches_of_a_wide_table_are_short() -> None:
    """Other clients run in between."""
    fields = b",".join(b'"f%d":1' % at for at in range(500))
    wide = [b'{"sow_key":"1","data":{%b}}' % fields] * 120
    service = Service(Made("b1", wide), Made("b1", wide))
    _, body = await service.answer()
    assert [len(chunk) for chunk in pa.ipc.open_stream(body).read_all()["f7"].chunks] == [100, 20]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"topic": "^orders"}, "regex topic not supported"),
        ({"options": "timestamp"}, "invalid options"),
        ({"options": "format=native"}, "invalid options"),
        ({"options": "no such option"}, "invalid options"),
        ({"columns": {"/v": "int"}}, "bad request"),
    ],
)
async def test_what_is_refused(fields: dict[str, Any], reason: str) -> None:
    """Before a query begins."""
    service = Service()
    with pytest.raises(SowlineError) as refused:
        await service.answer(**fields)
    assert refused.value.reason == reason


async def test_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the command that installs it."""

    def none(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr("sowline.serving.http.tables.import_module", none)
    with pytest.raises(SowlineError, match=r"sowline\[arrow\]") as refused:
        await Service().answer()
    assert refused.value.reason == "not supported"
