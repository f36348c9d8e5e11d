"""Answers queries with a table: a stream in Arrow's format, for clients that ask for it by the header `Accept`.

Its schema comes first. Types that the client does not name are found in a first pass over the same instant, also of
the clock.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from starlette.responses import Response, StreamingResponse

from sowline.errors import SowlineError
from sowline.language.filter import compile_filter, require_deterministic
from sowline.serving.authorization.topic_patterns import is_pattern
from sowline.serving.cooperative import TURN_RECORDS_MAX, wait_next_turn
from sowline.serving.http.requests import FRESHNESS, header_text, instant_headers, with_first
from sowline.serving.outbox.group import RecordPortion
from sowline.serving.result import Result
from sowline.serving.tables.columns import TableColumn, requested_columns
from sowline.serving.tables.sow_records import read_sow_records
from sowline.serving.tables.survey import ColumnSurvey
from sowline.version import installing
from sowline.wire.media_types import ARROW
from sowline.wire.options import parse_options

if TYPE_CHECKING:
    from sowline.serving.tables.batches import TableWriter

COLUMNS = "columns"
TABLE_FIELDS = (COLUMNS,)
"""The fields of a query for a table that other queries do not have."""

BATCH_BYTES = 1 << 20
"""Bytes of records from which a batch is written, although it has fewer than `TURN_RECORDS_MAX` records."""

BATCH_VALUES = 50 * TURN_RECORDS_MAX
"""Values of a batch, null among them: the batches of a wide table have fewer records, or other clients would wait."""

_UNFIT = ("timestamp", "intrinsics", "no_sowkey", "is_typed", "rank")
"""The options about what is sent with a record, or in which form: a table has only fields."""


class BegunQuery(Protocol):
    """A query that has begun."""

    @property
    def result(self) -> Result:
        """Its counts and warnings."""

    @property
    def bookmark(self) -> str:
        """The bookmark of its instant."""

    def records(self) -> AsyncIterator[RecordPortion]:
        """Yield the records."""


Q = TypeVar("Q", bound=BegunQuery)
Begin = Callable[[dict[str, Any]], Awaitable[Q]]
"""Begins the query with these fields, in the turn of the request."""
Close = Callable[[Q], Awaitable[None]]


def answer_headers(query: BegunQuery) -> dict[str, str]:
    """Return the headers of an answer: its instant, and the warnings about the request."""
    headers = instant_headers(query.bookmark, query.result.lag_seconds)
    if query.result.warnings:
        headers["Sowline-Warning"] = header_text("; ".join(query.result.warnings))
    return headers


async def table_response(fields: dict[str, Any], begin: Begin[Q], close: Close[Q]) -> Response:
    """Return the response to a query for a table; raise why there is none."""
    columns: Sequence[TableColumn] = requested_columns(fields.pop(COLUMNS, ()))
    _check_fields(fields)
    written = await _table_writer()
    is_typed = bool(columns) and all(column.type for column in columns)
    if not is_typed:
        fields = _at_one_time(fields)
    query = await begin(fields)
    headers = answer_headers(query)
    if not is_typed:
        query, columns = await _surveyed(query, columns, fields, begin, close)
    writer = written(columns, {"sowline.topic": fields["topic"], "sowline.bookmark": query.bookmark})
    parts = _parts(query, writer, close)
    # Compute the first batch before the headers are sent: after them, an error can only spoil the stream.
    first = await anext(parts)
    return StreamingResponse(with_first(first, parts), media_type=ARROW, headers=headers)


async def _table_writer() -> "type[TableWriter]":
    """Return what writes tables; raise `not supported` without pyarrow."""
    try:
        # In a thread: the first import takes a while, and other clients would wait.
        module = await asyncio.to_thread(import_module, "sowline.serving.tables.batches")
    except ImportError as error:
        raise SowlineError(
            "not supported", f"expected pyarrow at the service, for tables; there: {installing('arrow')}"
        ) from error
    writer: type[TableWriter] = module.TableWriter
    return writer


def _check_fields(fields: dict[str, Any]) -> None:
    """Raise for topics and options that a table can't show."""
    if is_pattern(fields["topic"]):
        raise SowlineError(
            "regex topic not supported",
            f"expected the name of one topic, got {fields['topic']}: a table covers one topic",
        )
    options = fields.get("options", "")
    # `request_of` refuses anything but a string.
    if isinstance(options, str) and any(getattr(parse_options(options), name) for name in _UNFIT):
        raise SowlineError(
            "invalid options",
            "expected a table without timestamp, intrinsics, no_sowkey, format=native and rank: it has only fields of"
            " the records",
        )


def _at_one_time(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with a filter that both passes have in common: neither time nor chance is in it."""
    text = fields.get("filter")
    if not isinstance(text, str):
        return fields  # `request_of` refuses anything but a string
    filter = compile_filter(text)
    if not filter.nondeterministic:
        return fields
    # A record that only the second pass matched could have fields and types that the first has not met.
    fixed = filter.at(time.time())
    require_deterministic(fixed, "the filter of a table with columns without a type")
    return {**fields, "filter": fixed.text}


async def _surveyed(
    first: Q, columns: Sequence[TableColumn], fields: dict[str, Any], begin: Begin[Q], close: Close[Q]
) -> tuple[Q, Sequence[TableColumn]]:
    """Return a query of the same instant as the first, with the columns of its records; the first is closed."""
    try:
        # Begin it at once: each change in between is one more to undo.
        again = await begun_again(first, fields, begin, close)
        try:
            survey = ColumnSurvey(columns)
            async for records in _batches(first.records(), lambda: survey.column_count):
                survey.note(read_sow_records(records))
            return again, survey.columns()
        # The caller closes only the query that it is given (test_an_error_before_the_first_batch).
        except BaseException:
            await close(again)
            raise
    finally:
        await close(first)


async def begun_again(first: Q, fields: dict[str, Any], begin: Begin[Q], close: Close[Q]) -> Q:
    """Return a second query of the same instant."""
    given = {name: value for name, value in fields.items() if name not in FRESHNESS}
    # A past time first: its positions may be too many changes ago. A time in the future is another instant each time
    # (test_a_time_in_the_future).
    for bookmark in (fields.get("bookmark"), first.bookmark):
        if bookmark:
            query = await begin({**given, "bookmark": bookmark})
            if query.bookmark == first.bookmark:
                return query
            # A query that nobody reads would keep the records of its instant (test_an_instant_that_is_gone).
            await close(query)
    raise SowlineError(
        "bookmark_expired",
        f"expected the records at {first.bookmark} a second time, got others: ask again, or give each of the columns"
        " a type",
    )


async def _parts(query: Q, writer: "TableWriter", close: Close[Q]) -> AsyncIterator[bytes]:
    """Yield the stream: its head with the first batch, the other batches, and the end. Then the query ends."""
    begun = writer.head()
    try:
        async for records in _batches(query.records(), lambda: writer.column_count):
            batch = writer.batch(records)
            yield begun + batch
            begun = b""
    except SowlineError as error:
        # Nothing has been sent: the answer can still have a status of its own (test_an_error_before_the_first_batch).
        if begun:
            raise
        yield writer.failure(error)
    else:
        yield begun + writer.end()
    finally:
        await close(query)


async def _batches(
    portions: AsyncIterator[RecordPortion], column_count: Callable[[], int]
) -> AsyncIterator[list[bytes]]:
    """Yield records in batches; `column_count` returns the number of columns that are known."""
    # A filter may leave one record of each portion, and a batch of one takes as long as one of a hundred.
    waiting: list[bytes] = []
    size = 0
    async for portion in portions:
        waiting += portion.records
        size += sum(map(len, portion.records))
        if len(waiting) < TURN_RECORDS_MAX and size < BATCH_BYTES:
            continue
        for batch in _pieces(waiting, column_count):
            yield batch
            await wait_next_turn()
        waiting, size = [], 0
    for batch in _pieces(waiting, column_count):
        yield batch


def _pieces(records: list[bytes], column_count: Callable[[], int]) -> Iterator[list[bytes]]:
    start = 0
    while start < len(records):
        end = start + _count_of(column_count())
        yield records[start:end]
        start = end


def _count_of(columns: int) -> int:
    """Return the number of records of a batch of so many columns."""
    return max(1, min(TURN_RECORDS_MAX, BATCH_VALUES // max(1, columns)))
