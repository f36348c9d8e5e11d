"""Join keys: the texts by which a record of a view's source finds the records of a joined topic."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from sowline.config.topic_definition import TopicDefinition
from sowline.config.views import Join
from sowline.errors import SowlineError
from sowline.language.groups.layout import grouped_value
from sowline.model.key import key_text
from sowline.model.path import Document, Path, reader
from sowline_views.core.states import group_key

NO_MATCH: Final = b""
"""The join key of a record that has none: a field is absent, or can't be a key. No SOW key is empty."""

JoinKeyOf = Callable[[Document], bytes]


def source_key(join: Join, topic: TopicDefinition) -> JoinKeyOf:
    """Return a function that makes the SOW key of the only match from fields of a record of the source."""
    identity = topic.identity
    return _grouped_key(join, identity) if identity.view is not None else _field_key(join, identity)


def text_key(paths: Sequence[Path]) -> JoinKeyOf:
    """Return a function that makes the key text of some fields; `NO_MATCH` if they can't be a key."""
    readers = [(str(number), reader(path)) for number, path in enumerate(paths)]
    names = [(name,) for name, _ in readers]

    def key_of(document: Document) -> bytes:
        values: dict[str, Any] = {name: read(document) for name, read in readers}
        try:
            return key_text(values, names).encode()
        except SowlineError:
            # The field may be absent or an object. That is no error: the record has no match.
            return NO_MATCH

    return key_of


def _field_key(join: Join, topic: TopicDefinition) -> JoinKeyOf:
    """Return a function that makes the SOW key from fields of a document, as the topic does from its key fields."""
    ours = {tuple(map(str, theirs.steps)): own for own, theirs in join.equalities}
    # In the order of the topic's key fields: a join may list them in another one, which would give another key
    # (test_the_fields_of_a_join_may_be_in_any_order).
    text_of, rule = text_key([ours[path] for path in topic.key_paths]), topic.key_rule

    def key_of(document: Document) -> bytes:
        text = text_of(document)
        return NO_MATCH if text == NO_MATCH else rule.sow_key(text.decode())

    return key_of


def _grouped_key(join: Join, topic: TopicDefinition) -> JoinKeyOf:
    """Return a function that makes the SOW key of a group from fields of a document."""
    ours = {str(theirs): reader(own) for own, theirs in join.equalities}
    assert topic.view is not None, "a group is of a view"
    readers = [ours[str(path)] for path in topic.view.grouping_paths]

    def key_of(document: Document) -> bytes:
        # An absent field is a null, and null has a group, so this never returns `NO_MATCH`.
        values = [grouped_value(read(document)) for read in readers]
        return group_key(orjson.dumps(values)).encode()

    return key_of
