"""What enforces entitlements: reads become reads of what may be seen, and writes are refused that may not be.

Of a write, the record must match before and after. What was before is what this replica holds: a write that another
has just made may not be seen yet.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from query_service.publishing import Write
from query_service.query import Selection
from query_service.rights import NOT_ENTITLED, Rights, both, check_fields, together
from query_service.state import TopicState
from sowline.command import DELTA, DELTA_PUBLISH, SOW_DELETE
from sowline.errors import SowlineError
from sowline.filter import ALL, Filter, compile_filter
from sowline.filter.tree import Node
from sowline.key import sow_key
from sowline.merge import merge
from sowline.options import Options
from sowline.projection import parse_projection


def entitled_to_read(selection: Selection, topics: Sequence[TopicState], rights: Rights) -> Selection:
    """Return what may be seen of what is asked for; raises `not entitled`."""
    each = {topic.definition.name: rights.read.of(topic.definition.name) for topic in topics}
    entitlement = together(rights.read, list(each))
    if entitlement.is_whole:
        return selection
    options = selection.options
    paths = (*selection.order.paths, *options.grouping, *options.conflation_key)
    check_fields(entitlement, selection.filter, paths, _computed(options))
    selection = replace(
        selection, filter=both(selection.filter, entitlement.filter), hides=entitlement.filter != ALL
    )
    if options.projection:
        return selection
    if entitlement.select is not None:
        mine, wanted = entitlement.select, options.select
        options = replace(options, select=mine if wanted is None else mine & wanted)
    return replace(
        selection,
        options=options,
        entitled={name: one.filter for name, one in each.items() if one.filter != ALL},
    )


def _computed(options: Options) -> list[Node]:
    """Return the expressions of a projection."""
    fields = parse_projection(options.projection).fields if options.projection else ()
    return [field.expression for field in fields]


def entitled_to_delete(topic: TopicState, about: Mapping[str, Any], rights: Rights) -> Mapping[str, Any]:
    """Return the headers of a command; a delete by filter is only of records that may be read, and written.

    Raises `not entitled` where nothing may be read: how many it deletes tells what there is.
    """
    if not about.get("filter"):
        return about
    name, filter = topic.definition.name, compile_filter(about["filter"])
    readable = rights.read.of(name)
    check_fields(readable, filter)
    allowed = both(readable.filter, rights.write.of(name).filter)
    return about if allowed == ALL else {**about, "filter": both(filter, allowed).text}


def check_write(topic: TopicState, write: Write, about: Mapping[str, Any], rights: Rights) -> None:
    """Raise `not entitled` unless what a command names may be written, as it is and as it will be."""
    name = topic.definition.name
    allowed = rights.write.of(name).filter
    if write.command == DELTA:
        _check_delta(name, allowed, rights)
    if allowed == ALL or about.get("filter"):
        return
    held = [body for key in _named(topic, write, about) if (body := topic.rows.body(key)) is not None]
    for body in held:
        _check(allowed, body, "a record")
    if write.body is not None and write.command != SOW_DELETE:
        is_laid_over = write.command == DELTA_PUBLISH and held
        _check(allowed, merge(held[0], write.body) if is_laid_over else write.body, "to write a record")


def _check_delta(name: str, allowed: Filter, rights: Rights) -> None:
    """Raise `not entitled` unless all of a topic may be written, and read: a delta asks what there is."""
    if allowed != ALL:
        raise _refused(allowed, "a publish or a delta_publish: what a delta does is known when it is applied")
    if name not in rights.read or not rights.read.of(name).is_whole:
        raise SowlineError(
            NOT_ENTITLED,
            f"expected to be entitled to read all of {name} for a delta: its conditions tell what a document is;"
            " send a publish or a delta_publish",
        )


def _named(topic: TopicState, write: Write, about: Mapping[str, Any]) -> Iterable[bytes]:
    """The SOW keys that a command names."""
    if write.key is None:
        return [key.encode() for key in about.get("keys") or ()]
    return [sow_key(topic.definition.domain_prefix, write.key.decode())]


def _check(allowed: Filter, body: bytes, what: str) -> None:
    if not allowed.matches(orjson.loads(body)):
        raise _refused(allowed, what)


def _refused(allowed: Filter, what: str) -> SowlineError:
    return SowlineError(
        NOT_ENTITLED, f"expected {what}, and only where {allowed.text}: that is what you may write"
    )
