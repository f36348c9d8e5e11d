"""Parses the two clauses of an aggregated read: `grouping`, the paths that form groups, and `projection`.

A projection is a list of result fields: `expression AS /path`, or a bare `/path`. Expressions are those of filters
and can contain aggregates: `SUM(/qty * /price) / SUM(/qty) AS /vwap`. `docs/aggregation.md` specifies both clauses.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain

from sowline.errors import SowlineError
from sowline.language.filter.check import REGEXES_SIZE_MAX, check, regex_size
from sowline.language.filter.determinism import nondeterministic
from sowline.language.filter.errors import FilterError
from sowline.language.filter.functions import FUNCTIONS
from sowline.language.filter.parse import Projected, parse_paths, parse_projected
from sowline.language.filter.printer import text_of
from sowline.language.filter.tree import Call, Field, Literal, Node, parts_of, rebuilt, walk
from sowline.model.difference import Keys, Names
from sowline.model.path import Path

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
"""The limit for paths, conditions, functions and constants in all expressions, without constants in lists."""

CACHED_PROJECTIONS_MAX = 64

_COUNTS_ALL = re.compile(r"COUNT\s*\(\s*\*\Z", re.IGNORECASE)


class ProjectionError(SowlineError):
    """A text is not a valid projection. `column` (1-based) is the position of the error in the text."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__("invalid projection", message)
        self.column = column


class GroupingError(SowlineError):
    """A text is not a valid grouping. `column` (1-based) is the position of the error in the text."""

    def __init__(self, message: str, column: int) -> None:
        super().__init__("invalid grouping", message)
        self.column = column


@dataclass(frozen=True, slots=True)
class ProjectedField:
    """One field of the results: the expression's tree, and the field's path in a result as names."""

    expression: Node
    output: tuple[str, ...]

    @property
    def text(self) -> str:
        """The canonical text of the field, without AS if the field is projected to its own path."""
        expression, output = text_of(self.expression), str(Path(self.output))
        return output if expression == output else f"{expression} AS {output}"


@dataclass(frozen=True)
class Projection:
    """The fields of the results, in order. Projections with the same fields are equal."""

    fields: tuple[ProjectedField, ...]

    @cached_property
    def text(self) -> str:
        """The canonical text, which `parse_projection` reads back."""
        return ", ".join(field.text for field in self.fields)

    def shown_at(self, names: Names) -> Keys:
        """Return the paths at which a result has an unchanged field of the record."""
        shown: list[Names] = []
        for field in self.fields:
            read = field.expression.path.steps if isinstance(field.expression, Field) else None
            if read is not None and names[: len(read)] == read:
                shown.append((*field.output, *names[len(read) :]))
        return tuple(shown)

    def key_fields(self, grouping: Iterable[Path]) -> Keys:
        """Return the paths at which a group's result has its grouping fields."""
        paths = [tuple(map(str, path.steps)) for path in grouping]
        return tuple(shown for names in paths for shown in self.shown_at(names) or (names,))

    @cached_property
    def nondeterministic(self) -> tuple[str, ...]:
        """The functions whose results may differ for the same records; a live subscription must not use any."""
        names = (nondeterministic(_of_results(field.expression)) for field in self.fields)
        return tuple(dict.fromkeys(chain.from_iterable(names)))

    def __str__(self) -> str:
        return self.text


def is_aggregate(node: Node) -> bool:
    """Return whether the node is a call of an aggregate."""
    return isinstance(node, Call) and node.name in AGGREGATES


def parse_grouping(text: str) -> tuple[Path, ...]:
    """Return the paths in a grouping such as `/a, /b/c`; raise `GroupingError`."""
    _check_length(text, GroupingError)
    try:
        written = parse_paths(text)
    except FilterError as error:
        raise GroupingError(error.message, error.column) from None
    if len(written) > GROUPING_PATHS_MAX:
        raise GroupingError(
            f"expected at most {GROUPING_PATHS_MAX} paths to group by, got {len(written)}",
            written[GROUPING_PATHS_MAX][1],
        )
    paths: list[Path] = []
    for path, column in written:
        if path in paths:
            raise GroupingError(f"expected each path once, got {path} again at column {column}", column)
        paths.append(path)
    return tuple(paths)


def parse_projection(text: str) -> Projection:
    """Return the projection in a text; raise `ProjectionError`. The result of the latest texts is cached."""
    found = _read(text)
    if isinstance(found, ProjectionError):
        # A new error each time: Python adds every caller's traceback to the one that it raises, and threads share the
        # cached one.
        raise ProjectionError(found.message, found.column)
    return found


def prepare_projection(text: str) -> None:
    """Parse a text, so that `parse_projection` returns or raises at once what it finds in the cache."""
    _read(text)


# A projection of 60 KiB takes 0.28 s. A worker thread reads it first, and the event loop finds it here. Refusals are
# kept, too, so that the loop does not read the text again to raise one.
@lru_cache(maxsize=CACHED_PROJECTIONS_MAX)
def _read(text: str) -> Projection | ProjectionError:
    try:
        return _parsed(text)
    except ProjectionError as error:
        # Without a traceback, which would keep the texts of whole requests in memory.
        return error.with_traceback(None)


def _parsed(text: str) -> Projection:
    _check_length(text, ProjectionError)
    try:
        written = parse_projected(text)
        if len(written) > FIELDS_MAX:
            raise ProjectionError(
                f"expected at most {FIELDS_MAX} fields, got {len(written)}", written[FIELDS_MAX].column
            )
        spent = _Spent()
        fields = [_field(one, spent) for one in written]
    except FilterError as error:
        raise _as_projection_error(error, text) from None
    _check_outputs(fields, written)
    return Projection(tuple(fields))


def _check_length(text: str, refusal: type[ProjectionError] | type[GroupingError]) -> None:
    if len(text) > CHARS_MAX:
        raise refusal(f"expected at most {CHARS_MAX} characters, got {len(text)}", CHARS_MAX + 1)


@dataclass(slots=True)
class _Spent:
    """The total size of the fields read so far, compared with the limits of a projection."""

    parts: int = 0
    regexes_size: int = 0

    def add(self, tree: Node, column: int) -> None:
        """Add one expression; raise `ProjectionError` if a limit is exceeded."""
        self.parts += parts_of(tree)
        self.regexes_size += sum(map(regex_size, walk(tree)))
        if self.parts > PARTS_MAX or self.regexes_size > REGEXES_SIZE_MAX:
            raise ProjectionError(
                f"expected a projection of at most {PARTS_MAX} parts, with regular expressions of"
                f" {REGEXES_SIZE_MAX} characters together, got more at column {column}",
                column,
            )


def _field(written: Projected, spent: _Spent) -> ProjectedField:
    tree = written.expression
    spent.add(tree, written.column)
    for node in walk(tree):
        if isinstance(node, Call) and is_aggregate(node):
            _check_aggregate(node)
    _check_functions(_of_results(tree))
    return ProjectedField(tree, _output(written.path, written.path_column))


def _of_results(tree: Node) -> Node:
    """Return the tree with a field in place of each aggregate: the part that is computed from their results."""
    return Field(Path(("result",))) if is_aggregate(tree) else rebuilt(tree, _of_results)


def _as_projection_error(error: FilterError, text: str) -> ProjectionError:
    message = error.message
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
    # A record that leaves its group is subtracted by its values, computed again: they must be those that were added.
    for name in nondeterministic(argument):
        raise ProjectionError(
            f"expected an argument of {call.name} that depends only on the record at column"
            f" {call.column}, got one with {name}",
            call.column,
        )


def _check_functions(tree: Node) -> None:
    """Raise for a function that does not exist, or that uses metadata.

    A record that leaves its group is subtracted by its previous body; its previous metadata is not known.
    """
    check(tree)
    for node in walk(tree):
        if isinstance(node, Call) and FUNCTIONS[node.name].fact:
            raise ProjectionError(
                f"expected functions of a record's fields only, got {node.name} at column {node.column}",
                node.column,
            )


def _output(path: Path, column: int) -> tuple[str, ...]:
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
            " (add AS and an output path)",
            column,
        )
    return names


def _check_outputs(fields: Iterable[ProjectedField], written: Iterable[Projected]) -> None:
    """Raise if the paths of two fields overlap: `/a` twice, or `/a` and `/a/b`."""
    objects: set[tuple[str, ...]] = set()
    values: set[tuple[str, ...]] = set()
    for field, one in zip(fields, written, strict=True):
        above = [field.output[:levels] for levels in range(1, len(field.output))]
        if field.output in values or field.output in objects or not values.isdisjoint(above):
            raise ProjectionError(
                f"expected output paths that don't overlap, got {Path(field.output)} over an earlier one"
                f" at column {one.column}",
                one.column,
            )
        values.add(field.output)
        objects.update(above)
