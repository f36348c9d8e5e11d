"""Reads a YAML file into a pydantic model, and reports all errors with their lines.

Values are texts, exactly as in the file. The model converts them to numbers or booleans where it needs those. So `NO`
and `007` keep their text. In a field that holds JSON, JSON's numbers and booleans have their own types.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import orjson
import yaml
from pydantic import BaseModel, ValidationError

from sowline.config.expected import expected_and_got
from sowline.errors import SowlineError

Location = tuple[int | str, ...]
"""The steps from the top of a file to a value: names of fields, and numbers in lists."""

Model = TypeVar("Model", bound=BaseModel)

LEVELS_MAX = 64
"""How deep lists and mappings may be nested. A file that is meant to be read by people has some ten levels."""

_JSON_VALUE = re.compile(r"true|false|-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_JSON_TAG = " json"
"""The tag of a scalar that is JSON. No file has it: a tag has no blank."""

_VARIABLE = re.compile(r"\$(?:(\$)|\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})?)")


@dataclass(frozen=True)
class Problem:
    """One error in a file: the line (from 1), the path of the value, and the message.

    `item` is the name of the list item that the value belongs to, such as a topic; empty if it has none.
    """

    file: str
    line: int
    where: str
    reason: str
    item: str = ""

    def __str__(self) -> str:
        return f"{self.address}: {self.reason}"

    @property
    def address(self) -> str:
        """The file, the line and the value, with the name of its item."""
        # A number does not show its reader which of many topics is meant.
        item = f" ({self.item})" if self.item else ""
        return f"{self.file}, line {self.line}: {self.where}{item}"


class YamlFileError(SowlineError):
    """All errors in a file, in the order of their lines."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line))
        super().__init__("bad configuration", "; ".join(map(str, self.problems)))


class YamlFile:
    """The text of a YAML file, with the line of each value.

    Errors call the file `name`. With an `environment`, `${NAME}` and `${NAME:-default}` in values are replaced by its
    variables (the default if the variable is unset or empty), and `$$` by `$`. Names of files are relative to
    `directory`; without a directory, it may not name files.
    """

    def __init__(
        self,
        text: str,
        name: str,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        self.name = name
        self._directory = directory
        try:
            self._top = yaml.compose(text, Loader=_TextLoader)
        except yaml.YAMLError as error:
            raise YamlFileError([self._no_yaml(error)]) from error
        values = list(_values(self._top, ()))
        # Before variables are replaced: the value of a variable is a text, even `null`.
        self._problems = [self.problem(*found) for found in (*_repeated(values), *_nothing(values))]
        self._unset: set[Location] = set()
        if environment is not None:
            for location, node in values:
                self._replace(location, node, environment)

    def read(self, model: type[Model], json_at: tuple[str, ...] = ()) -> Model:
        """Return the file's content as a model; raise YamlFileError with all errors.

        The field at `json_at`, in lists of any length, holds JSON.
        """
        try:
            declared = model.model_validate(self._content(json_at), context={"directory": self._directory})
        except ValidationError as error:
            found = [_location_and_message(problem) for problem in error.errors() if not _follows(problem)]
            unreported = [self.problem(*one) for one in found if one[0] not in self._unset]
            raise YamlFileError([*self._problems, *unreported]) from error
        if self._problems:
            raise YamlFileError(self._problems)
        return declared

    def problem(self, location: Location, reason: str, line: int = 1) -> Problem:
        """Return an error for a value, or for one line (from 1) of a block text."""
        where = ".".join(str(step) for step in location) or "file"
        return Problem(self.name, self._line(location, line), where, reason, self._item(location))

    def _content(self, json_at: tuple[str, ...]) -> Any:
        if self._top is None:
            return {}
        if json_at:
            self._tag_json(json_at)
        try:
            return _TextLoader("").construct_document(self._top)
        except yaml.YAMLError as error:
            raise YamlFileError([self._no_yaml(error)]) from error

    def _tag_json(self, json_at: tuple[str, ...]) -> None:
        """Tag the numbers and booleans without quotes in a field that holds JSON."""
        for location, node in _values(self._top, ()):
            names = tuple(step for step in location if isinstance(step, str))
            is_plain = isinstance(node, yaml.ScalarNode) and node.style is None
            if names[: len(json_at)] == json_at and is_plain and _JSON_VALUE.fullmatch(node.value):
                node.tag = _JSON_TAG

    def _no_yaml(self, error: Exception) -> Problem:
        mark = getattr(error, "problem_mark", None)
        causes = [getattr(error, part, None) for part in ("context", "problem")] if mark else [str(error)]
        reason = " ".join(", ".join(part for part in causes if part).split())
        return Problem(self.name, mark.line + 1 if mark else 1, "file", f"expected valid YAML: {reason}")

    def _replace(self, location: Location, node: yaml.Node, environment: Mapping[str, str]) -> None:
        if isinstance(node, yaml.ScalarNode):
            try:
                # In a value, and not in the text of the file: a variable with a colon or a line break can't add
                # fields to a topic.
                text = _VARIABLE.sub(lambda found: _replaced(found, environment), node.value)
                if text != node.value:
                    # Without quotes, a variable that is `5` today would make a number of a text
                    # (test_a_variable_in_a_template_is_a_text).
                    node.style = node.style or '"'
                    node.value = text
            except ValueError as error:
                # The value is invalid only because its variable is not set: one error is enough.
                self._unset.add(location)
                self._problems.append(self.problem(location, str(error)))

    def _item(self, location: Location) -> str:
        """Return the name of the list item that a value belongs to; empty if it has none, or is the value."""
        found, node = "", self._top
        for at, step in enumerate(location):
            _, node = _below(node, step)
            if isinstance(step, int):
                _, name = _below(node, "name")
                is_itself = location[at + 1 :] == ("name",)
                found = name.value if isinstance(name, yaml.ScalarNode) and not is_itself else found
        return found

    def _line(self, location: Location, line: int) -> int:
        found, node = 1, self._top
        for step in location:
            key, value = _below(node, step)
            if value is None:
                return found
            found, node = (key or value).start_mark.line + 1, value
        if isinstance(node, yaml.ScalarNode) and node.style == "|":
            return node.start_mark.line + 1 + line
        return found


def open_yaml_file(path: Path, what: str, environment: Mapping[str, str] | None = None) -> YamlFile:
    """Return the file at the path; raise `bad configuration` if it can't be read or is not YAML."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SowlineError("bad configuration", f"expected {what} at {path}: {error}") from error
    return YamlFile(text, str(path), environment, path.parent)


def _json_value(_: yaml.SafeLoader, node: yaml.Node) -> Any:
    try:
        return orjson.loads(node.value)
    except ValueError:
        raise yaml.MarkedYAMLError(
            problem=f"a number that fits a double, got {node.value}", problem_mark=node.start_mark
        ) from None


class _TextLoader(yaml.SafeLoader):
    """Reads every value as text, unchanged; `<<` still merges."""

    # YAML reads the topic name NO as False, and 007 as 7 (test_a_name_is_the_text_that_stands_there).

    yaml_implicit_resolvers = {"<": yaml.SafeLoader.yaml_implicit_resolvers["<"]}  # noqa: RUF012 - PyYAML reads it from the class
    yaml_constructors = {
        tag: constructor
        for tag, constructor in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag.rpartition(":")[2] in ("str", "seq", "map")
    } | {_JSON_TAG: _json_value}
    _level = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Return the next node; raise YAMLError if it is nested too deep for the recursive code that reads it."""
        self._level += 1
        if self._level > LEVELS_MAX:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem=f"at most {LEVELS_MAX} levels, got more", problem_mark=mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        self._level -= 1
        return node


def _values(node: yaml.Node | None, location: Location) -> Iterator[tuple[Location, yaml.Node]]:
    """Yield every value with its location; yield a value with aliases only at its anchor."""
    # By identity: a few lines of aliases of aliases can stand for billions of values.
    seen: set[int] = set()
    waiting = [(location, node)]
    while waiting:
        location, node = waiting.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        yield location, node
        if isinstance(node, yaml.MappingNode):
            waiting += [((*location, str(key.value)), value) for key, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            waiting += [((*location, step), value) for step, value in enumerate(node.value)]


def _repeated(values: list[tuple[Location, yaml.Node]]) -> Iterator[tuple[Location, str]]:
    for location, node in values:
        if isinstance(node, yaml.MappingNode):
            first: dict[str, int] = {}
            for key, _ in node.value:
                name, line = str(key.value), key.start_mark.line + 1
                # YAML's own loader silently takes the last of two values (test_a_field_is_there_once).
                if name in first:
                    yield (*location, name), f"is defined twice, in line {first[name]} and in line {line}"
                first.setdefault(name, line)


def _nothing(values: list[tuple[Location, yaml.Node]]) -> Iterator[tuple[Location, str]]:
    """Yield YAML's null values as errors: it is unclear whether the text or no value is meant."""
    for location, node in values:
        if isinstance(node, yaml.ScalarNode) and node.style is None and node.value.lower() in ("null", "~"):
            yield (
                location,
                f"expected a value, got {node.value}: leave the field out, or put the text in quotes",
            )


def _below(node: yaml.Node | None, step: int | str) -> tuple[yaml.Node | None, yaml.Node | None]:
    """Return the key (None in a list) and the value at a step; of repeated keys, the last one."""
    if isinstance(node, yaml.MappingNode):
        pairs: list[tuple[yaml.Node, yaml.Node]] = node.value
        return next(((key, value) for key, value in reversed(pairs) if key.value == step), (None, None))
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return None, node.value[step]
    return None, None


def _replaced(found: re.Match[str], environment: Mapping[str, str]) -> str:
    text, (dollar, name, default) = found[0], found.groups()
    if dollar or text == "$":
        return "$"
    if name is None:
        raise ValueError(
            f"expected ${{NAME}} or ${{NAME:-default}}, got {text}; write $$ for a $ before a {{"
        )
    value = environment.get(name)
    if default is not None:
        return value or default
    if value is None:
        raise ValueError(
            f"expected the environment variable {name}, which is not set: set it, or write ${{{name}:-default}}"
        )
    return value


def _follows(problem: Mapping[str, Any]) -> bool:
    """Return whether a list is too short only because of invalid items, which are reported separately."""
    # The only item of a list has an error: pydantic leaves the item out, and then reports the list as too short, too
    # (test_a_list_is_not_too_short_for_what_is_wrong_in_it).
    if problem["type"] != "too_short":
        return False
    least: int = problem["ctx"]["min_length"]
    return len(problem["input"]) >= least


def _location_and_message(problem: Mapping[str, Any]) -> tuple[Location, str]:
    location = tuple(step for step in problem["loc"] if not str(step).startswith("["))
    return location, expected_and_got(problem)
