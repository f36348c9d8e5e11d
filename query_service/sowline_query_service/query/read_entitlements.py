"""Enforces the entitlements of reads: restricts a read to the records and fields that the user may see."""

from collections.abc import Sequence
from dataclasses import replace

from sowline.language.expressions.projection import parse_projection
from sowline.language.filter import ALL
from sowline.language.filter.tree import Node
from sowline.serving.authorization.entitlements import Rights, both, check_fields, together
from sowline.wire.options import Options
from sowline_query_service.query.selection import Selection
from sowline_query_service.topics.topic_state import TopicState


def entitled_to_read(selection: Selection, topics: Sequence[TopicState], rights: Rights) -> Selection:
    """Return the part of a selection that the user may see; raise `not entitled`."""
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
        readable=entitlement.select,
        entitled={name: one.filter for name, one in each.items() if one.filter != ALL},
    )


def _computed(options: Options) -> list[Node]:
    """Return the expressions of a projection."""
    fields = parse_projection(options.projection).fields if options.projection else ()
    return [field.expression for field in fields]
