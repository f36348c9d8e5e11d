r"""The patterns of `like`: `*` is any text, `\` makes the next character itself; matched in linear time."""

from collections.abc import Iterator

from sowline.emodb.tree import Condition, Equal, Is, LikeTest


def like(pattern: str) -> Condition:
    """The condition of a pattern: without a `*` an equality, of `*` alone `is(string)`. Raises `ValueError`."""
    pieces = _pieces(pattern)
    if len(pieces) == 1:
        return Equal(pieces[0])
    return LikeTest(pattern, pieces) if any(pieces) else Is("string")


def matches(pieces: tuple[str, ...], text: str) -> bool:
    """Whether a text is the pieces in order, with any text between them."""
    first, last = pieces[0], pieces[-1]
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    # The leftmost place of each piece leaves the most room to those behind it.
    position, end = len(first), len(text) - len(last)
    for piece in pieces[1:-1]:
        position = text.find(piece, position, end)
        if position < 0:
            return False
        position += len(piece)
    return True


def wildcards(pieces: tuple[str, ...]) -> int:
    """How many runs of `*` the pattern has."""
    return len(pieces) - 1


def _pieces(pattern: str) -> tuple[str, ...]:
    """The texts around the wildcards; a run of them is one."""
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
    """The character behind a backslash."""
    character = next(rest, None)
    if character is None:
        raise ValueError("expected a character behind the backslash that ends the pattern")
    return character
