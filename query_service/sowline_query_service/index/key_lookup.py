"""Key lookup: finds the SOW keys of a filter that compares all key fields with strings. Pure."""

from itertools import product
from math import isfinite, prod

import orjson

from sowline.config.topic_definition import TopicDefinition
from sowline.language.filter.tree import Node
from sowline.model.path import Path
from sowline_query_service.index.hash_index import COMBINATIONS_MAX, spellings, strings_by_path


def sow_keys_of(tree: Node, definition: TopicDefinition) -> list[bytes] | None:
    """Return the SOW keys of all records that the filter may match; None if it does not determine the key fields."""
    asked = strings_by_path(tree)
    # A key field may have a name that isn't a path by itself, such as `/a$b`; a filter asks for `[/a$b]`.
    paths = [Path(steps) for steps in definition.key_paths]
    if not paths or any(path not in asked for path in paths):
        return None
    choices = [_texts(asked[path]) for path in paths]
    if prod(map(len, choices)) > COMBINATIONS_MAX:
        return None
    keys = [
        texts[0] if len(texts) == 1 else orjson.dumps(list(texts)).decode() for texts in product(*choices)
    ]
    return [definition.key_rule.sow_key(text) for text in keys]


def _texts(strings: frozenset[str]) -> list[str]:
    """Return the key texts of all values that equal a string: the string, and the integer or boolean it spells."""
    texts = dict.fromkeys(strings)
    for value in spellings(strings):
        if not isinstance(value, str) and isfinite(value) and value == int(value):
            texts[str(int(value))] = None
            if value in (0, 1):
                texts["true" if value else "false"] = None
    # Half of a surrogate pair is in no key, and can't be hashed (test_what_no_record_can_be_called_is_left_out).
    return [text for text in texts if _is_utf8(text)]


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
