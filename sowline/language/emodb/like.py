r"""The patterns of `like`: `*` matches any text, and `\` escapes the next character. Matching takes linear time."""

from collections.abc import Iterator

from sowline.language.emodb.tree import Condition, Equal, Is, LikeTest


def like(pattern: str) -> Condition:
    """Return the condition of a pattern: an equality without `*`, `is(string)` for `*` alone. Raise `ValueError`."""
    pieces = _pieces(pattern)
    if len(pieces) == 1:
        return Equal(pieces[0])
    return LikeTest(pattern, pieces) if any(pieces) else Is("string")


def matches(pieces: tuple[str, ...], text: str) -> bool:
    """Whether the text consists of the pieces in order, with any text between them."""
    first, last = pieces[0], pieces[-1]
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    # The leftmost match of each piece leaves the most text for the pieces after it.
    position, end = len(first), len(text) - len(last)
    for piece in pieces[1:-1]:
        position = text.find(piece, position, end)
        if position < 0:
            return False
        position += len(piece)
    return True


def wildcards(pieces: tuple[str, ...]) -> int:
    """Return the number of runs of `*` in the pattern."""
    return len(pieces) - 1


def _pieces(pattern: str) -> tuple[str, ...]:
    """Return the texts around the wildcards; a run of wildcards counts as one."""
    pieces: list[list[str]] = [[]]
    after_wildcard = False
    characters = iter(pattern)
    for character in characters:
        if character == "*" and after_wildcard:
            continue
        after_wildcard = character == "*"
        if after_wildcard:
            pieces.append([])
        else:
            pieces[-1].append(_escaped(characters) if character == "\\" else character)
    return tuple(map("".join, pieces))


def _escaped(rest: Iterator[str]) -> str:
    """Return the character after a backslash."""
    character = next(rest, None)
    if character is None:
        raise ValueError("expected a character after the backslash that ends the pattern")
    return character
