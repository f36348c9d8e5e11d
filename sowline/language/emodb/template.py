"""Templates of documents: fields that all documents of a topic read with, whatever they have under these names. Pure.

Deltas and their conditions see a document's own content, without the template. A record holds what is read, and its
`hidden` fields are those of the content that the template hides. Together they give the content back.
"""

from collections.abc import Mapping

from sowline.language.emodb.values import Json

Fields = Mapping[str, Json]


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
