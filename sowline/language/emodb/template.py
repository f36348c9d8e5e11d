"""Templates of documents: fields that all documents of a topic read with, whatever they have under these names. Pure.

Deltas and their conditions see a document's own content, without the template. A record holds what is read, and its
`hidden` fields are those of the content that the template hides. Together they give the content back.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import orjson

from sowline.language.emodb.intrinsics import RESERVED_KEYS
from sowline.language.emodb.values import Json

Fields = Mapping[str, Json]


@lru_cache(maxsize=64)
def read_template(text: str | None) -> Fields:
    """Return the fields of a template, as in `Limits`. They are shared: change nothing in them."""
    fields: Fields = orjson.loads(text or "{}")
    return fields


def check_template(template: Fields, key_paths: Iterable[Sequence[str]] = ()) -> None:
    """Raise ValueError if a template has fields that it may not set: intrinsics, or the fields of the key."""
    if reserved := sorted(RESERVED_KEYS & template.keys()):
        raise ValueError(f"expected fields other than intrinsics, got {', '.join(reserved)}")
    if keyed := sorted(template.keys() & {steps[0] for steps in key_paths}):
        raise ValueError(f"expected a template without the key's fields, got {', '.join(keyed)}")


def read_with(content: Fields, template: Fields) -> dict[str, Json]:
    """Return the body that readers of a document with this content see."""
    return {**content, **template}


def hidden_by(template: Fields, content: Fields) -> dict[str, Json]:
    """Return the fields of the content that the template hides."""
    return {name: content[name] for name in template if name in content}


def own_content(read: Fields, hidden: Fields, template: Fields) -> dict[str, Json]:
    """Return the content of the document that readers see like this, in the order of its fields."""
    return {
        name: hidden.get(name, value)
        for name, value in read.items()
        if name not in template or name in hidden
    }
