"""The members of canonical JSON that stand for the nodes of an XML element.

An element without attributes and other nodes is its text. Any other is an object: attributes first, then one member
for each name of its child nodes, in the order in which the names first occur. Nodes of one name are an array.

| node | member |
|---|---|
| attribute | `@` and its name |
| child element | its name |
| text | `#text` |
| comment | `#comment` |
| processing instruction | `?` and its target; the value is its data |

If nodes of one name do not follow each other, the members do not show the order. Then `#content` does: an array with
the names of all child nodes, in their order. The document is an object of the same kind. It has one element.
"""

from typing import Final

TEXT: Final = "#text"
COMMENT: Final = "#comment"
CONTENT: Final = "#content"
ATTRIBUTE: Final = "@"
INSTRUCTION: Final = "?"


def is_element(member: str) -> bool:
    """Whether a member stands for child elements."""
    return member[:1] not in ("@", "#", "?")
