"""The arguments of each tool: their types, limits and descriptions, and the request that they stand for. Pure.

The JSON Schema that an agent reads is made from these types, which also check what the agent sends.
"""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from sowline.errors import SowlineError
from sowline.model.select import parse_select

RECORDS_MAX = 1000
WAIT_SECONDS_MAX = 50
"""Many agents give up a call after 60 s."""

A = TypeVar("A", bound=msgspec.Struct)

_TOPIC = Meta(min_length=1, description="The name of a topic, from the tool `topics`.")
_FILTER = Meta(description="Only records that match, for example /status = 'open' AND /qty > 100.")
_SELECT = Meta(description="Only these fields of each record, for example ['/id', '/price'].")
_AFTER = Meta(description="A bookmark that an earlier call returned.")
_LIMIT = Meta(ge=1, le=RECORDS_MAX, description="The maximum number of records.")


class NoArguments(msgspec.Struct, forbid_unknown_fields=True):
    """No arguments."""


class TopicArguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A topic."""

    topic: Annotated[str, _TOPIC]


class SelectArguments(TopicArguments, kw_only=True):
    """Some records of a topic, and some of their fields."""

    filter: Annotated[str, _FILTER] = ""
    select: Annotated[tuple[str, ...], _SELECT] = ()


class ExplainArguments(SelectArguments, kw_only=True):
    """A query for records, or for groups of them."""

    order_by: Annotated[str, Meta(description="The order, for example /qty DESC, /id.")] = ""
    group_by: Annotated[tuple[str, ...], Meta(description="The fields that define a group.")] = ()
    compute: Annotated[
        tuple[str, ...],
        Meta(
            description="With group_by: the fields of each group, for example ['/item', 'SUM(/qty) AS /sold']."
        ),
    ] = ()


class QueryArguments(ExplainArguments, kw_only=True):
    """A query, the part of its result that is returned, and its instant."""

    limit: Annotated[int, _LIMIT] = 50
    skip: Annotated[int, Meta(ge=0, description="Skip this many records first.")] = 0
    bookmark: Annotated[
        str, Meta(description="Read the state at a bookmark or a time, for example for the next page.")
    ] = ""


class RecordArguments(TopicArguments, kw_only=True):
    """One record, and the writes to it."""

    key: Annotated[str, Meta(min_length=1, description="The text of the record's key.")]
    timeline: Annotated[
        bool, Meta(description="Also return the newest writes to it. Only topics with documents keep them.")
    ] = False
    limit: Annotated[int, Meta(ge=1, le=RECORDS_MAX, description="The maximum number of writes.")] = 20


class ChangesArguments(SelectArguments, kw_only=True):
    """The changes after a bookmark."""

    after: Annotated[str, _AFTER] = ""
    limit: Annotated[int, Meta(ge=1, le=RECORDS_MAX, description="The maximum number of changes.")] = 100


class WaitArguments(SelectArguments, kw_only=True):
    """A record to wait for."""

    after: Annotated[str, _AFTER] = ""
    limit: Annotated[int, _LIMIT] = 10
    seconds: Annotated[
        float, Meta(gt=0, le=WAIT_SECONDS_MAX, description="How long to wait, in seconds.")
    ] = 30.0


class PublishArguments(TopicArguments, kw_only=True):
    """A record to write."""

    record: Annotated[dict[str, Any], Meta(description="The record as a JSON object, with its key fields.")]
    merge: Annotated[
        bool, Meta(description="Merge these fields into the record, instead of replacing it whole.")
    ] = False


class DeleteArguments(TopicArguments, kw_only=True):
    """Records to delete."""

    sow_keys: Annotated[
        list[str],
        Meta(min_length=1, max_length=100, description="The SOW keys of the records, from the tool `query`."),
    ]


def read_arguments(kind: type[A], given: Mapping[str, Any]) -> A:
    """Return the arguments of a tool; raise `bad request` if they are invalid."""
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise SowlineError("bad request", f"expected other arguments: {error}") from None


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of arguments."""
    (_,), components = msgspec.json.schema_components([kind])
    # The title and the description are for readers of the code: the tool has its own.
    return {name: value for name, value in components[kind.__name__].items() if name in _OF_SCHEMA}


_OF_SCHEMA = ("type", "properties", "required", "additionalProperties")


def options_of(asked: SelectArguments, *words: str) -> str:
    """Return the options of a request; raise `invalid options` for what names no fields."""
    options = [*words]
    if asked.select:
        # Read here, one by one: a field with a bracket in its name could end the list and begin another option.
        fields = ",".join(map(_included, asked.select))
        options.append(f"select={parse_select(f'[-/,{fields}]').text}")
    if isinstance(asked, ExplainArguments) and (asked.group_by or asked.compute):
        options += [f"grouping=[{','.join(asked.group_by)}]", f"projection=[{','.join(asked.compute)}]"]
    return ",".join(options)


def _included(field: str) -> str:
    text = parse_select(f"[+{field}]").text[1:-1]
    if "," in field or text == "+/":
        raise SowlineError(
            "invalid options", f"expected the path of one field, such as /id, got {field[:60]!r}"
        )
    return text


def query_fields(asked: ExplainArguments) -> dict[str, Any]:
    """Return the fields of the request for a query, without its limits."""
    return _given({"filter": asked.filter, "order_by": asked.order_by, "options": options_of(asked)})


def page_fields(asked: QueryArguments) -> dict[str, Any]:
    """Return the fields of the request for a query, one record longer than its limit."""
    # The record after the last one shows that there are more (test_a_query_reports_that_there_is_more).
    page = {"top_n": asked.limit + 1, "skip_n": asked.skip, "bookmark": asked.bookmark}
    return {**query_fields(asked), **_given(page)}


def changes_parameters(asked: ChangesArguments) -> dict[str, str]:
    """Return the parameters of the subscription that ends with the newest change."""
    after = asked.after or "now"
    given = {"filter": asked.filter, "options": options_of(asked, "oof"), "bookmark": after, "up_to": "now"}
    return _given(given)


def waiting_parameters(asked: WaitArguments, after: str) -> dict[str, str]:
    """Return the parameters of the subscription to what matches after a bookmark."""
    return _given({"filter": asked.filter, "options": options_of(asked), "bookmark": after})


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}
