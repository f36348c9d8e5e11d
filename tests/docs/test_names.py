"""Parameters say in which unit they are, names are whole words, and what is named as a question changes nothing.

A duration of 500 is half a second to one function and eight minutes to another; the type checker sees a number.
"""

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import cast

import pytest

from sowline.config.settings import Settings
from tests.docs.test_asserts import changes_state
from tests.docs.test_comments import PRODUCT, ROOT
from tests.docs.test_privates import tree_of

UNITS = frozenset(
    (
        "ns",
        "ms",
        "seconds",
        "minutes",
        "hours",
        "days",
        "bytes",
        "bits",
        "chars",
        "count",
        "max",
        "min",
        "second",
    )
)
"""The last words of names with a unit. With `max`, the word before it is the unit: `bytes_max`, `records_max`."""

MEASURES = frozenset(
    (
        "age",
        "backlog",
        "delay",
        "duration",
        "expiration",
        "interval",
        "lag",
        "length",
        "lifetime",
        "pause",
        "period",
    )
) | {
    "chunk",
    "every",
    "in",
    "limit",
    "memory",
    "portion",
    "rate",
    "size",
    "timeout",
    "ttl",
    "wait",
    "width",
    "window",
}
"""The last words of names of measures: none of them has a unit of its own.

Words like `offset`, `partition`, `records` and `depth` count something, and so are their own unit. A moment (`now`,
`time`, `since`) is in ms since 1970 if it is an `int`, as in records, and in seconds if it is a `float`, as from
Python's clocks.
"""

NUMBERS = frozenset(("int", "float", "int|None", "float|None", "int|float", "int|float|None"))

EXCEPTIONS = {
    "sowline/cli/bench.py:bench:rate": "is the option's name",
    "sowline/cli/dead.py:list_:limit": "is the option's name",
    "sowline/cli/top/command.py:top:every": "is the option's name",
    "sowline/client/local_view.py:verify:timeout": "is what users of a client call",
    "sowline/client/local_view.py:wait_for:timeout": "is what users of a client call",
    "sowline/client/reading.py:timeline:limit": "is what users of a client call",
    "sowline/client/stream.py:next_batch:limit": "is what users of a client call",
    "sowline/cli/types.py:types:limit": "is the option's name",
    "sowline/commands/command.py:command_headers:expiration": "is the command's name",
    "sowline/registry/client.py:__init__:timeout": "is what users of a registry call",
    "sowline/runtime/connections.py:getsockopt:size": "is the name in the standard library",
    "sowline/runtime/silence.py:getsockopt:size": "is the name in the standard library",
}
"""By module, function and parameter: why it has no unit."""

FIELD_EXCEPTIONS = {
    "contract/http_types.py:PartitionLagReport:lag": "is the answer's name, and counts records",
    "contract/http_types.py:TopicReport:lag": "is the answer's name, and counts records",
    "gateway/sowline_gateway/nodes/routing.py:AnnouncedTopic:lag": "is the answer's name, and counts records",
    "materializer/sowline_materializer/store/native_overlay.py:_CoreLimits:expiration": "is the topic's",
    "materializer/sowline_materializer/store/native_overlay.py:_CoreLimits:repeat_window": "is the topic's",
    "query_service/sowline_query_service/snapshots/manifest.py:BlockAt:size": "is what disks have",
    "sowline/changes/change.py:Change:emitted_in": "is an era",
    "sowline/changes/event.py:_About:emitted_in": "is an era",
    "sowline/check/history.py:WriteSent:expiration": "is the command's name",
    "sowline/cli/top/table.py:ServiceRow:message_rate": "is what `sowline top` prints, per second",
    "sowline/cli/top/table.py:TopicRow:change_rate": "is what `sowline top` prints, per second",
    "sowline/cli/top/table.py:TopicRow:log_rate": "is what `sowline top` prints, per second",
    "sowline/cli/top/table.py:PartitionRow:lag": "is the answer's name, and counts records",
    "sowline/cli/top/table.py:TopicRow:lag": "is the answer's name, and counts records",
    "sowline/client/write_options.py:WriteOptions:expiration": "is what users of a client call",
    "sowline/codecs/avro/types.py:AvroType:size": "is the name in Avro",
    "sowline/commands/command.py:Command:expiration": "is the command's name",
    "sowline/language/expressions/projection.py:_Spent:regexes_size": "counts what is in patterns, as RE2 does",
    "sowline/language/filter/metadata.py:Metadata:size": "is the function's name in filters",
    "sowline/model/limits.py:Limits:repeat_window": "is the name in topics.yaml",
    "sowline/subscriptions/ask.py:Ask:batch_size": "is the option's name, and counts records",
    "sowline/subscriptions/ask.py:Selecting:batch_size": "is the option's name, and counts records",
    "sowline/subscriptions/lifecycle.py:Take:limit": "is the name in the recorded sequences of both clients",
    "sowline/wire/client_message.py:Received:expires_in": "is the message's name",
    "sowline/wire/client_message.py:Received:size": "is the message's name",
    "sowline/wire/client_message.py:_Record:size": "is the message's name",
    "sowline/wire/request.py:QueryRequest:batch_size": "is the option's name, and counts records",
    "sowline/wire/request.py:ReadTimeline:limit": "is the option's name, and counts writes",
    "sowline/wire/request.py:Write:expiration": "is the command's name",
}
"""By module, class and field: why it has no unit."""

ATTRIBUTE_EXCEPTIONS = {
    "sowline/serving/access/login_session.py:LoginSession:expires_in": "is the message's name",
}
"""By module, class and attribute, or by module and constant: why it has no unit."""

SHORT = re.compile(
    "addr|args?|arr|attr|auth|buf|cb|cfg|cmd|cnt|conf|conn|ctx|cur|db|desc|dirs?|doc|dst|elem|env|errs?|evt|exc|expr|fmt|"
    "fn|func|hdr|idx|impl|kwargs|lhs|lib|mem|mgr|msg|num|obj|opts?|params?|pkg|pos|pred|prev|proc|props?|ptr|refs?|req|"
    "resp?|rhs|specs?|src|stats?|str|temp|tmp|vals?"
)
"""Abbreviations that no name may have as one of its words."""

SHORT_EXCEPTIONS = {
    "AckStats": "is the acknowledgement's name",
    "MSG_TYPE": "is the tag's name in FIX",
    "STATS": "is the acknowledgement's name",
    "args": "is the name in click",
    "auth": "is the name in httpx",
    "conf": "is the name in Spark",
    "conn": "is the name in uvicorn",
    "ctx": "is the name in click",
    "data_dir": "is the setting's name",
    "doc": "is the name in Avro",
    "exc": "is the name in asyncio",
    "max_mem": "is the name in RE2",
    "msg": "is the name in uvicorn",
    "num_tickets": "is the name in the standard library",
    "param": "is the name in click",
    "parse_args": "is the name in click",
    "snapshot_dir": "is the setting's name",
}
"""Names with an abbreviation, each with its reason."""

ANSWERS = {
    "bool": "is the answer",
    "Column": "is the answer for each row, in Spark",
    "Column | None": "is the same, where there may be none",
    "Condition": "is the answer for each document, in the language of documents",
    "Nested": "is the answer for each record, in filters",
    "Test": "is the same, compiled",
    "TypeGuard": "is the answer, for the type checker, too",
    "Verdict": "is the answer of a filter, which may be unknown",
}
"""What a question may return, each with what it stands for."""

VAGUE = re.compile(r"Manager|Helper|Util")
"""Words in the names of classes that do not say what a class is."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_QUESTION = re.compile(r"_?(is|has|can)_")

Function = ast.FunctionDef | ast.AsyncFunctionDef
MODULES = [path for name in PRODUCT for path in sorted((ROOT / name).rglob("*.py"))]


def is_number(annotation: ast.expr) -> bool:
    """Whether a type is that of a number, or of none."""
    return ast.unparse(annotation).replace(" ", "") in NUMBERS


def numbers_of(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the function and the name of each parameter that is a number."""
    for node in ast.walk(tree):
        if isinstance(node, Function):
            for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                if one.annotation is not None and is_number(one.annotation):
                    yield node.name, one.arg


def numeric_fields_of(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the class and the name of each field that is a number."""
    for one in ast.walk(tree):
        if isinstance(one, ast.ClassDef):
            for node in one.body:
                match node:
                    case ast.AnnAssign(target=ast.Name(id=name), annotation=kind) if is_number(kind):
                        yield one.name, name


def attributes_of(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the class and the name of each attribute that is a number, and of each property that returns one."""
    for one in ast.walk(tree):
        if not isinstance(one, ast.ClassDef):
            continue
        for function in (node for node in one.body if isinstance(node, Function)):
            if function.returns is not None and _is_property(function) and is_number(function.returns):
                yield one.name, function.name
            known = {name for _, name in numbers_of(function)}
            for target, value, kind in _assigned(ast.walk(function)):
                is_own = isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self"
                if is_own and (_counts(value, known) if kind is None else is_number(kind)):
                    yield one.name, ast.unparse(target).removeprefix("self.")


def constants_of(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the name of each constant of a module that is a number, as if the module were a class."""
    for target, value, kind in _assigned(tree.body):
        is_plain = kind is None or ast.unparse(kind) == "Final"
        if isinstance(target, ast.Name) and (
            _counts(value, ()) if is_plain else is_number(cast("ast.expr", kind))
        ):
            yield "", target.id


def _is_property(function: Function) -> bool:
    return any(ast.unparse(one).endswith("property") for one in function.decorator_list)


def _assigned(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.expr, ast.expr | None, ast.expr | None]]:
    """Yield what is assigned to, with the value and the type that is named."""
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from ((target, value, None) for target in targets)
            case ast.AnnAssign(target=target, value=value, annotation=kind):
                yield target, value, kind


def _counts(value: ast.expr | None, known: Collection[str]) -> bool:
    """Whether a value is surely a number: a literal, a parameter that is one, or what is computed of them."""
    match value:
        case ast.Constant(value=number):
            return isinstance(number, int | float) and not isinstance(number, bool)
        case ast.Name(id=name):
            return name in known
        case ast.Attribute(attr=name):
            return name.rpartition("_")[2] in UNITS
        case ast.BinOp(left=left, right=right):
            return _counts(left, known) or _counts(right, known)
        case ast.Call(func=ast.Name(id=name), args=args):
            return name in ("len", "sum", "round", "int", "float") or (
                name in ("min", "max") and any(_counts(one, known) for one in args)
            )
    return False


def lacks_unit(name: str) -> bool:
    """Whether a number of this name is a measure without its unit."""
    word = name.lower().rpartition("_")[2]
    return word in MEASURES and word not in UNITS


def stored_names(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a module gives to functions, classes, parameters, variables and attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def is_short(name: str) -> bool:
    """Whether one of the words of a name is an abbreviation; the language has chosen those of special methods."""
    return not name.startswith("__") and any(SHORT.fullmatch(word.lower()) for word in _WORD.findall(name))


def check_units(found: AbstractSet[str], exceptions: Mapping[str, str]) -> None:
    """Check that the names without a unit are exactly the exceptions."""
    assert sorted(found - exceptions.keys()) == [], "expected a unit at the end of each name"
    assert sorted(exceptions.keys() - found) == [], "expected exceptions that there are"


def test_measures_have_units() -> None:
    """In the name of the parameter, where it is called by name, or in the list of exceptions."""
    found = {
        f"{path.relative_to(ROOT)}:{function}:{name}"
        for path in MODULES
        for function, name in numbers_of(tree_of(path))
        if lacks_unit(name)
    }
    check_units(found, EXCEPTIONS)


def test_fields_have_units() -> None:
    """As parameters have. A reader of a field is further from where it is set."""
    found = {
        f"{path.relative_to(ROOT)}:{one}:{name}"
        for path in MODULES
        for one, name in numeric_fields_of(tree_of(path))
        if lacks_unit(name)
    }
    check_units(found, FIELD_EXCEPTIONS)


def test_attributes_and_constants_have_units() -> None:
    """As fields have: an attribute that no annotation declares, a property, and what a module names."""
    found = {
        f"{path.relative_to(ROOT)}:{one}:{name}"
        for path in MODULES
        for of in (attributes_of, constants_of)
        for one, name in of(cast("ast.Module", tree_of(path)))
        if lacks_unit(name)
    }
    check_units(found, ATTRIBUTE_EXCEPTIONS)


def test_names_are_whole_words() -> None:
    """Only names of others are short."""
    found = {name for path in MODULES for name in stored_names(tree_of(path)) if is_short(name)}
    assert sorted(found - SHORT_EXCEPTIONS.keys()) == [], "expected names of whole words"
    assert sorted(SHORT_EXCEPTIONS.keys() - found) == [], "expected exceptions that there are"


def broken_questions(tree: ast.AST) -> Iterator[str]:
    """Yield what is wrong with functions that are named as questions; validators are called by pydantic alone."""
    for node in ast.walk(tree):
        if not isinstance(node, Function) or not _QUESTION.match(node.name):
            continue
        if any("validator" in ast.unparse(decorator) for decorator in node.decorator_list):
            continue
        answer = "no type" if node.returns is None else ast.unparse(node.returns)
        if answer.partition("[")[0] not in ANSWERS:
            yield f"{node.name}: expected bool, got {answer}"
        if changes_state(node):
            yield f"{node.name}: expected a question, got a change of state"


def test_a_question_has_an_answer_and_changes_nothing() -> None:
    """So it may be asked twice, in an assert or in a log line."""
    found = [
        f"{path.relative_to(ROOT)}: {what}" for path in MODULES for what in broken_questions(tree_of(path))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def is_over(self) -> bool:\n    return self.x\n", 0),
        ("def is_over(self) -> bool:\n    self.x = 1\n    return True\n", 1),
        ("def has_left(topic) -> Error:\n    return Error()\n", 1),
        ("def _can_go(self):\n    self.x.pop()\n", 2),
        ("@field_validator('x')\ndef _has_x(cls, x) -> X:\n    return x\n", 0),
        ("def issue(self) -> int:\n    self.x = 1\n", 0),
    ],
)
def test_which_questions_are_broken(text: str, found: int) -> None:
    """Those that return something else, and those that change state."""
    assert len(list(broken_questions(ast.parse(text)))) == found


def test_classes_say_what_they_are() -> None:
    """A manager or a helper may be anything."""
    found = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in MODULES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef) and VAGUE.search(node.name)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", Settings.model_fields)
def test_a_setting_has_its_unit(name: str) -> None:
    """As parameters have: an operator sees the name alone."""
    about = Settings.model_fields[name]
    assert about.annotation not in (int, float, int | None, float | None) or not lacks_unit(name)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f(timeout: float): ...", ["timeout"]),
        ("def f(*, batch_size: int | None = None): ...", ["batch_size"]),
        ("async def f(wait_ms: int, size_bytes: int, lag_seconds: float): ...", []),
        ("def f(offset: int, records: int, pause: bool, window: Window): ...", []),
    ],
)
def test_which_parameters_lack_a_unit(text: str, found: list[str]) -> None:
    """Numbers that measure something."""
    assert [name for _, name in numbers_of(ast.parse(text)) if lacks_unit(name)] == found


def test_which_fields_lack_a_unit() -> None:
    """Those of classes, with or without a value."""
    text = "class C:\n    delay: float = 0\n    size: int | None\n    size_bytes: int\n    window: Window\n"
    found = list(numeric_fields_of(ast.parse(text)))
    assert [name for _, name in found if lacks_unit(name)] == ["delay", "size"]


def test_which_attributes_and_constants_lack_a_unit() -> None:
    """Those whose value is surely a number, as far as a reader of the module sees."""
    text = """
class C:
    def __init__(self, delay: float, rate: Rate, config):
        self.delay = delay
        self.rate = rate
        self.pause = config.pause_ms / 1000
        self.size: int | None = None
        self.window, self.wait_ms = Window(), 3

    @property
    def lag(self) -> float: ...
"""
    found = list(attributes_of(ast.parse(text)))
    assert sorted(name for _, name in found if lacks_unit(name)) == ["delay", "lag", "pause", "size"]
    constants = list(
        constants_of(ast.parse("SIZE: Final = 1 << 20\nAGE = '3'\nWAIT_SECONDS = 2\nDELAY = 3\n"))
    )
    assert [name for _, name in constants if lacks_unit(name)] == ["SIZE", "DELAY"]


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("_cfg", True),
        ("msg_count", True),
        ("MSG", True),
        ("QueryStats", True),
        ("message", False),
        ("__str__", False),
    ],
)
def test_which_names_are_short(name: str, short: bool) -> None:
    """One word of several is enough."""
    assert is_short(name) is short
