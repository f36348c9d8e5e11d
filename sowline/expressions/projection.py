"""What an aggregated read asks for: `grouping`, the paths that make a group, and `projection`, its fields.

A projection is a list of `expression AS /path`, or of bare `/path`s. Expressions are those of filters, and
may hold aggregates: `SUM(/qty * /price) / SUM(/qty) AS /vwap`. `docs/aggregation.md` specifies both.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import NamedTuple

from sowline.errors import SowlineError
from sowline.filter.check import REGEXES_SIZE_MAX, check, regex_size
from sowline.filter.determinism import nondeterministic
from sowline.filter.errors import FilterError
from sowline.filter.functions import FUNCTIONS
from sowline.filter.parse import parse
from sowline.filter.printer import text_of
from sowline.filter.tree import Call, Field, Literal, Node, parts_of, rebuilt, walk
from sowline.model.path import Path, PathError, parse_path

AGGREGATES = (
    "ANY",
    "AVG",
    "COUNT",
    "COUNT_DISTINCT",
    "GROUP_CONCAT",
    "MAX",
    "MIN",
    "STDDEV_POP",
    "STDDEV_SAMP",
    "SUM",
    "UNIQUE",
)
CHARS_MAX = 64 * 1024
FIELDS_MAX = 256
GROUPING_PATHS_MAX = 16
OUTPUT_LEVELS_MAX = 32

PARTS_MAX = 1500
"""Paths, conditions, functions and constants of all expressions; constants in a list do not count."""

CACHED_PROJECTIONS_MAX = 64

_TOKEN = re.compile(
    r"""(?<!\w)[rR](?:'[^']*(?:'|\Z)|"[^"]*(?:"|\Z))                  # a raw string
      | '(?:[^'\\]|\\.)*(?:'|\\?\Z) | "(?:[^"\\]|\\.)*(?:"|\\?\Z)   # a string
      | /@?\w[\w.:\-]* | \[[^\]]*(?:\]|\Z)                          # a path's name, or what brackets hold
      | (?P<word>\w+) | (?P<mark>[(),]) | .""",
    re.VERBOSE | re.DOTALL,
)
"""What commas and AS hide in is one token; what isn't closed goes on to the end, for the parser to refuse."""

_COUNTS_ALL = re.compile(r"COUNT\s*\(\s*\*\Z", re.IGNORECASE)


class ProjectionError(SowlineError):
    """A text is not a projection. `column` (1-based) is where in the text the trouble begins."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__("invalid projection", message)
        self.column = column


class GroupingError(SowlineError):
    """A text is not a grouping. `column` (1-based) is where in the text the trouble begins."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__("invalid grouping", message)
        self.column = column


_Refusal = type[ProjectionError] | type[GroupingError]


@dataclass(frozen=True, slots=True)
class ProjectedField:
    """One field of the results: the expression's tree, and the names that lead to it in a result."""

    expression: Node
    output: tuple[str, ...]

    @property
    def text(self) -> str:
        """The field as a projection spells it; what is projected as itself needs no AS."""
        expression, output = text_of(self.expression), str(Path(self.output))
        return output if expression == output else f"{expression} AS {output}"


@dataclass(frozen=True)
class Projection:
    """The fields of the results, in order. Equal to every projection of the same fields."""

    fields: tuple[ProjectedField, ...]

    @cached_property
    def text(self) -> str:
        """The canonical text, which `parse_projection` reads back."""
        return ", ".join(field.text for field in self.fields)

    @cached_property
    def nondeterministic(self) -> tuple[str, ...]:
        """The functions used that may answer differently of the same records: none for a live subscription."""
        names = (nondeterministic(_of_results(field.expression)) for field in self.fields)
        return tuple(dict.fromkeys(chain.from_iterable(names)))

    def __str__(self) -> str:
        return self.text


def is_aggregate(node: Node) -> bool:
    """Whether the node is the call of an aggregate."""
    return isinstance(node, Call) and node.name in AGGREGATES


def parse_grouping(text: str) -> tuple[Path, ...]:
    """The paths of `/a, /b/c`, whose values make a group; raises `GroupingError`."""
    parts = _parts(text, GroupingError)
    if len(parts) > GROUPING_PATHS_MAX:
        raise GroupingError(
            f"expected at most {GROUPING_PATHS_MAX} paths to group by, got {len(parts)}",
            parts[GROUPING_PATHS_MAX].begin + 1,
        )
    paths: list[Path] = []
    for part in parts:
        path = _path(text, part.begin, part.end, GroupingError)
        if path in paths:
            raise GroupingError(
                f"expected each path once, got {path} again at column {part.begin + 1}", part.begin + 1
            )
        paths.append(path)
    return tuple(paths)


@lru_cache(maxsize=CACHED_PROJECTIONS_MAX)
def parse_projection(text: str) -> Projection:
    """The projection that the text spells; raises `ProjectionError`."""
    parts = _parts(text, ProjectionError)
    if len(parts) > FIELDS_MAX:
        raise ProjectionError(
            f"expected at most {FIELDS_MAX} fields, got {len(parts)}", parts[FIELDS_MAX].begin + 1
        )
    fields: list[ProjectedField] = []
    spent = _Spent()
    for part in parts:
        fields.append(_field(text, part, spent))
    _check_outputs(fields, parts)
    return Projection(tuple(fields))


@dataclass(slots=True)
class _Spent:
    """What the fields read so far take of what a projection may have."""

    parts: int = 0
    regexes_size: int = 0

    def add(self, tree: Node, column: int) -> None:
        """Count one expression; raises `ProjectionError` where there are too many of them."""
        self.parts += parts_of(tree)
        self.regexes_size += sum(map(regex_size, walk(tree)))
        if self.parts > PARTS_MAX or self.regexes_size > REGEXES_SIZE_MAX:
            raise ProjectionError(
                f"expected a projection of at most {PARTS_MAX} parts, with regular expressions of"
                f" {REGEXES_SIZE_MAX} characters together, got more at column {column}",
                column,
            )


class _Part(NamedTuple):
    """Where a part of a list lies in the text, and its AS, without blanks around either side of it."""

    begin: int
    end: int
    as_begin: int | None
    as_end: int | None


def _parts(text: str, refusal: _Refusal) -> list[_Part]:
    """The parts between the commas that are in no string, path or parentheses."""
    if len(text) > CHARS_MAX:
        raise refusal(f"expected at most {CHARS_MAX} characters, got {len(text)}", CHARS_MAX + 1)
    return list(_split(text))


def _split(text: str) -> Iterator[_Part]:
    begin, depth, last_as = 0, 0, None
    for token in _TOKEN.finditer(text):
        if token["mark"]:
            depth += {"(": 1, ")": -1, ",": 0}[token["mark"]]
            if token["mark"] == "," and depth <= 0:
                yield _trimmed(text, begin, token.start(), last_as)
                begin, depth, last_as = token.end(), 0, None
        elif token["word"] and token["word"].upper() == "AS" and depth <= 0:
            last_as = token.span()
    yield _trimmed(text, begin, len(text), last_as)


def _trimmed(text: str, begin: int, end: int, as_span: tuple[int, int] | None) -> _Part:
    content = text[begin:end]
    start = begin + len(content) - len(content.lstrip())
    return _Part(start, max(start, begin + len(content.rstrip())), *(as_span or (None, None)))


def _field(text: str, part: _Part, spent: _Spent) -> ProjectedField:
    begin, end = part.begin, part.as_begin if part.as_begin is not None else part.end
    expression = _expression(text, begin, end, spent)
    if part.as_end is not None:
        begin = part.end - len(text[part.as_end : part.end].lstrip())
        return ProjectedField(expression, _output(text, begin, part.end))
    if not isinstance(expression, Field):
        raise ProjectionError(
            f"expected AS and a path at column {end + 1}, behind the expression, got nothing", end + 1
        )
    return ProjectedField(expression, _output(text, begin, end))


def _expression(text: str, begin: int, end: int, spent: _Spent) -> Node:
    if not text[begin:end].strip():
        raise ProjectionError(f"expected an expression at column {begin + 1}, got nothing", begin + 1)
    try:
        # Blanks in place of the fields before it: so the parser's columns are the whole text's.
        tree = parse(" " * begin + text[begin:end])
        spent.add(tree, begin + 1)
        aggregates = [node for node in walk(tree) if isinstance(node, Call) and is_aggregate(node)]
        for call in aggregates:
            _check_aggregate(call)
        _check_functions(_of_results(tree))
    except FilterError as error:
        raise _as_projection_error(error, text) from None
    return tree


def _of_results(tree: Node) -> Node:
    """The tree with a field in place of each aggregate: what is left to compute when their results are known."""
    return Field(Path(("result",))) if is_aggregate(tree) else rebuilt(tree, _of_results)


def _as_projection_error(error: FilterError, text: str) -> ProjectionError:
    message = re.sub("end of filter$", "the end of the expression", error.message)
    if _COUNTS_ALL.search(text, 0, error.column):
        message += " (COUNT(1) counts the records)"
    return ProjectionError(message, error.column)


def _check_aggregate(call: Call) -> None:
    allowed = (1, 2) if call.name == "GROUP_CONCAT" else (1,)
    if len(call.arguments) not in allowed:
        raise ProjectionError(
            f"expected {' or '.join(map(str, allowed))} argument{'s' * (len(allowed) > 1)} for {call.name}"
            f" at column {call.column}, got {len(call.arguments)}",
            call.column,
        )
    argument, *delimiter = call.arguments
    if delimiter and not (isinstance(delimiter[0], Literal) and isinstance(delimiter[0].value, str)):
        raise ProjectionError(
            f"expected a quoted delimiter as second argument of {call.name} at column {call.column},"
            f" got {text_of(delimiter[0])}",
            call.column,
        )
    for node in walk(argument):
        if isinstance(node, Call) and is_aggregate(node):
            raise ProjectionError(
                f"expected no aggregate in the argument of {call.name}, got {node.name}"
                f" at column {node.column}",
                node.column,
            )
    _check_functions(argument)
    for name in nondeterministic(argument):
        raise ProjectionError(
            f"expected an argument of {call.name} that depends on nothing but the record at column"
            f" {call.column}, got one with {name}",
            call.column,
        )


def _check_functions(tree: Node) -> None:
    """Raise for a function that doesn't exist, or that asks for more than a record's fields.

    When a record leaves its group, only its body of then is known, not what was known about it.
    """
    check(tree)
    for node in walk(tree):
        if isinstance(node, Call) and FUNCTIONS[node.name].fact:
            raise ProjectionError(
                f"expected functions of a record's fields only, got {node.name} at column {node.column}",
                node.column,
            )


def _output(text: str, begin: int, end: int) -> tuple[str, ...]:
    path = _path(text, begin, end, ProjectionError)
    column = begin + 1
    if len(path.steps) > OUTPUT_LEVELS_MAX:
        raise ProjectionError(
            f"expected an output path of at most {OUTPUT_LEVELS_MAX} names at column {column},"
            f" got {len(path.steps)}",
            column,
        )
    names = tuple(step for step in path.steps if isinstance(step, str))
    if len(names) < len(path.steps):
        raise ProjectionError(
            f"expected an output path of names only at column {column}, got {path}"
            " (write AS and the path that it shall have)",
            column,
        )
    return names


def _path(text: str, begin: int, end: int, refusal: _Refusal) -> Path:
    content = text[begin:end].strip()
    try:
        return parse_path(content)
    except PathError as error:
        raise refusal(f"{error.message}, at column {begin + 1}", begin + 1) from None


def _check_outputs(fields: Iterable[ProjectedField], parts: Iterable[_Part]) -> None:
    """Raise where a field would stand in another's place: `/a` twice, or `/a` and `/a/b`."""
    objects: set[tuple[str, ...]] = set()
    values: set[tuple[str, ...]] = set()
    for field, part in zip(fields, parts, strict=True):
        above = [field.output[:levels] for levels in range(1, len(field.output))]
        if field.output in values or field.output in objects or not values.isdisjoint(above):
            column = part.begin + 1
            raise ProjectionError(
                f"expected output paths that don't overlap, got {Path(field.output)} over an earlier one"
                f" at column {column}",
                column,
            )
        values.add(field.output)
        objects.update(above)
