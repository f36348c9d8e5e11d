"""Checks a tree for errors that the grammar does not find.

These are unknown functions, wrong numbers of arguments, invalid or too many patterns, and `OF PREVIOUS` outside of
enrichment.
"""

from difflib import get_close_matches

from sowline.language.filter.errors import FilterError
from sowline.language.filter.evaluate import to_text
from sowline.language.filter.functions import FUNCTIONS
from sowline.language.filter.functions.registry import Function
from sowline.language.filter.patterns import compile_pattern, takes_regex
from sowline.language.filter.printer import text_of
from sowline.language.filter.regex import PATTERN_SIZE_MAX, PatternError, Regex, check_size
from sowline.language.filter.tree import Call, FieldOf, Like, Literal, Node, walk

NAME_CHARS_MAX = 40
"""The number of characters of an unknown function's name that an error shows."""

NEAR = 0.65
"""The minimum similarity, from 0 to 1, of an unknown name and the function that the error suggests."""


REGEXES_MAX = 100
"""The limit in one filter: each search is linear in the text, but all of them together must be fast, too."""

REGEXES_SIZE_MAX = 2 * PATTERN_SIZE_MAX
"""The limit for the total `pattern_size` in one filter: nothing else runs while patterns are compiled."""


def check(tree: Node) -> None:
    """Raise `FilterError` for the first thing in the tree that can't be compiled."""
    regexes = size = 0
    for node in walk(tree):
        if isinstance(node, FieldOf):
            raise FilterError(
                f"expected a path of the record at column {node.column}, got {text_of(node)}"
                " (only enrichment has OF PREVIOUS and OF CURRENT)",
                node.column,
            )
        if not isinstance(node, Call | Like):
            continue
        taken = regex_size(node)
        regexes += taken > 0
        size += taken
        # Counted before the checks below compile the pattern: nothing else in the process runs meanwhile.
        if regexes > REGEXES_MAX or size > REGEXES_SIZE_MAX:
            raise _too_many(node)
        if isinstance(node, Call):
            _check_call(node)
        else:
            _check_like(node)


def regex_size(node: Node) -> int:
    """Return the `pattern_size` of the node's regular expression, 0 if it has none.

    A pattern that comes from the record counts with the maximum size. Raise `FilterError` for a pattern above it.
    """
    if isinstance(node, Like):
        if not takes_regex(node.pattern, raw=node.raw):
            return 0
        return _size(node.pattern, "after LIKE", node.column)
    if not isinstance(node, Call) or not node.name.startswith("REGEXP_") or len(node.arguments) < 2:
        return 0
    pattern = node.arguments[1]
    # Each record may bring the largest pattern that there is.
    if not isinstance(pattern, Literal):
        return PATTERN_SIZE_MAX
    return max(1, _size(to_text(pattern.value) or "", f"in {node.name}", node.column))


def _size(pattern: str, where: str, column: int) -> int:
    try:
        return check_size(pattern)
    except PatternError as error:
        raise _bad_pattern(where, column, error) from None


def _too_many(node: Call | Like) -> FilterError:
    return FilterError(
        f"expected at most {REGEXES_MAX} regular expressions, of {REGEXES_SIZE_MAX} characters together with their"
        f" repetitions written out, got more at column {node.column}",
        node.column,
    )


def _check_call(call: Call) -> None:
    function = FUNCTIONS.get(call.name)
    if function is None:
        raise FilterError(
            f"expected a known function at column {call.column}, got {_excerpt(call.name)}{_suggestion(call.name)}",
            call.column,
        )
    if not function.takes(len(call.arguments)):
        raise FilterError(
            f"expected {_count(function)} for {call.name} at column {call.column}, got {len(call.arguments)}",
            call.column,
        )
    if call.name.startswith("REGEXP_"):
        _check_regexp(call)


def _excerpt(name: str) -> str:
    return name if len(name) <= NAME_CHARS_MAX else name[: NAME_CHARS_MAX - 3] + "..."


def _suggestion(name: str) -> str:
    near = get_close_matches(name[:NAME_CHARS_MAX], FUNCTIONS, n=1, cutoff=NEAR)
    return f"; did you mean {near[0]}?" if near else ""


def _count(function: Function) -> str:
    least, most = function.least, function.most
    if most is None:
        return f"at least {least} argument{'s' * (least != 1)}"
    if most == 0:
        return "no argument"
    return f"{least if least == most else f'{least} or {most}'} argument{'s' * (most != 1)}"


def _check_regexp(call: Call) -> None:
    pattern = call.arguments[1]
    if not isinstance(pattern, Literal) or pattern.value in (None, ""):
        return
    try:
        Regex(to_text(pattern.value) or "")
    except PatternError as error:
        raise _bad_pattern(f"in {call.name}", call.column, error) from None


def _check_like(like: Like) -> None:
    try:
        compile_pattern(like.pattern, raw=like.raw)
    except PatternError as error:
        raise _bad_pattern("after LIKE", like.column, error) from None


def _bad_pattern(where: str, column: int, error: PatternError) -> FilterError:
    return FilterError(
        f"expected a pattern in RE2's syntax {where} at column {column}, got one with {error}", column
    )
