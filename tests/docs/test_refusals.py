"""A refusal says what was expected. Its reader can then mend the input, and needs no look at the code."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.docs.test_comments import PRODUCT, ROOT
from tests.docs.test_privates import tree_of

REFUSES = re.compile(
    r"(SowlineError|ValueError|TypeError|(Filter|Projection|Enrichment|Grouping|Document|Path)Error"
    r"|_?bad_(message|schema|column)|_bad|_invalid|invalid_bookmark|incompatible_schema"
    r"|click\.(BadParameter|UsageError))"
)
"""What is called to refuse an input with a message."""

PASSES_ON = re.compile(r"\b(error|failure|problem|why|wrong|_EXPECTED)\b")
"""In what a message inserts: a sentence that was made elsewhere, with what was expected."""

CAME = re.compile(r"\b(got|not|but|came|found|has|have|lacks|answered|is|are|no|twice|without|instead)\b")
"""What a message has that says, beside what was expected, what came."""

SILENT_MAX = 24
"""Refusals that only say what was expected. The limit only goes down."""

STATES = {
    "UNAVAILABLE": "no query service answers for some partitions",
    "already running": "another process has the directory",
    "auth failure": "the rights of a connection have ended",
    "auth unavailable": "the keys of tokens can't be read",
    "behind": "a service has not come that far",
    "bookmark_expired": "what follows the bookmark is gone",
    "busy": "a limit of the service is reached",
    "changes incomplete": "a changes topic has lost events",
    "disconnected": "the caller has closed a client",
    "gap": "changes were deleted before they were read",
    "internal": "a defect of Sowline",
    "log incomplete": "a log has lost records",
    "logon expired": "the rights of a connection have ended",
    "logon required": "a connection took too long",
    "no kafka": "Kafka does not answer",
    "not connected": "no service answers",
    "not ready": "Kafka or a service needs more time",
    "not started": "a service did not come up",
    "not written": "Kafka has not taken a message",
    "query aborted": "the client ended its query",
    "replaced": "the client replaced its subscription",
    "request timeout": "a service does not answer in time",
    "rights changed": "the access file gives the user other rights",
    "state damaged": "a store can't be read",
}
"""The reasons that tell of a state of the system, and not of an input, each with that state."""

EXCEPTIONS = {
    "materializer/sowline_materializer/admin/backup.py": "the caller says which file is damaged",
    "materializer/sowline_materializer/admin/forwarded.py": "records that can't be applied again, whatever is given",
    "materializer/sowline_materializer/admin/verify.py": "states of the view that can't be compared now",
    "materializer/sowline_materializer/core/record.py": "a store's value, not an input",
    "sowline/client/record_view.py": "the service's answer, not an input",
    "sowline/codecs/bson/values.py": "the caller puts `expected` before the text",
    "sowline/codecs/msgpack.py": "the caller puts `expected` before the text",
    "sowline/codecs/value_objects.py": "the caller puts `expected` before the text",
    "sowline/kafka/admin.py": "Kafka did not carry out a change in time",
    "sowline/serving/access/tls.py": "the caller says what was expected",
    "sowline/serving/http/requests.py": "the connection ended within the body",
    "sowline/serving/writes/pending_commands.py": "the dead letter says what was expected",
}
"""Modules with a message that lacks it, each with the reason."""


def message_of(call: ast.Call) -> ast.expr | None:
    """Return the message of a call that refuses an input; None if it refuses none."""
    name = ast.unparse(call.func)
    if not call.args or not REFUSES.fullmatch(name):
        return None
    if name != "SowlineError":
        return call.args[0]
    reason = ast.unparse(call.args[0]).strip("'")
    return None if reason in STATES else call.args[-1]


def is_lacking(message: ast.expr) -> bool:
    """Whether a message is a text that neither says what was expected nor passes on a sentence that does."""
    if isinstance(message, ast.Constant):
        return "expected" not in str(message.value).lower()
    if not isinstance(message, ast.JoinedStr):
        return False
    inserted = [ast.unparse(part.value) for part in message.values if isinstance(part, ast.FormattedValue)]
    texts = [str(part.value) for part in message.values if isinstance(part, ast.Constant)]
    return "expected" not in "".join(texts).lower() and not any(map(PASSES_ON.search, inserted))


def lacking(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of a module's refusals that do not say what was expected."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (message := message_of(node)) is not None and is_lacking(message):
            yield node.lineno


def test_a_refusal_says_what_was_expected() -> None:
    """All but those on the list, which has no module without one."""
    paths = [path for package in PRODUCT for path in sorted((ROOT / package).rglob("*.py"))]
    found = {str(path.relative_to(ROOT)): [*lacking(tree_of(path))] for path in paths}
    wrong = [f"{name}:{line}" for name, lines in found.items() if name not in EXCEPTIONS for line in lines]
    assert not wrong, "expected `expected …, got …` in the messages at\n" + "\n".join(wrong)
    assert EXCEPTIONS.keys() == {name for name, lines in found.items() if lines} & EXCEPTIONS.keys()


def is_silent(message: ast.expr) -> bool:
    """Whether a message says what was expected, and not what came instead."""
    if isinstance(message, ast.Constant):
        inserted, text = [], str(message.value)
    elif isinstance(message, ast.JoinedStr):
        inserted = [
            ast.unparse(part.value) for part in message.values if isinstance(part, ast.FormattedValue)
        ]
        text = "".join(str(part.value) for part in message.values if isinstance(part, ast.Constant))
    else:
        return False
    return "expected" in text.lower() and not CAME.search(text) and not any(map(PASSES_ON.search, inserted))


def silent(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of a module's refusals that do not say what came."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (message := message_of(node)) is not None and is_silent(message):
            yield node.lineno


def test_a_refusal_says_what_came() -> None:
    """But for the few that are counted: most of them are about something that is absent."""
    paths = [path for package in PRODUCT for path in sorted((ROOT / package).rglob("*.py"))]
    found = [f"{path.relative_to(ROOT)}:{line}" for path in paths for line in silent(tree_of(path))]
    assert len(found) <= SILENT_MAX, "\n".join([*found, f"{len(found)} refusals that do not say what came"])


def test_a_state_is_a_reason_that_is_raised() -> None:
    """The list of states keeps none that has gone."""
    texts = "\n".join(path.read_text() for package in PRODUCT for path in (ROOT / package).rglob("*.py"))
    assert [reason for reason in STATES if reason not in texts] == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("raise SowlineError('bad request', f'{name} is wrong')", 1),
        ("raise ValueError('no')", 1),
        ("return _bad(f'no {name}')", 1),
        ("raise SowlineError('bad request', f'expected one, got {name}')", 0),
        ("raise SowlineError('bad request', f'{name}: {error.message}')", 0),
        ("raise SowlineError('behind', f'{name} is late')", 0),
        ("raise ValueError(message)", 0),
        ("raise AssertionError('no')", 0),
    ],
)
def test_what_is_found(text: str, count: int) -> None:
    """Texts that lack it; not sentences of other modules, states or defects."""
    assert len([*lacking(ast.parse(text))]) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("raise ValueError(f'expected a number at {where}')", 1),
        ("raise ValueError('expected one topic')", 1),
        ("raise ValueError(f'expected a number, got {kind}')", 0),
        ("raise ValueError(f'{name} is no number: expected one')", 0),
        ("raise ValueError(f'expected a number: {error}')", 0),
    ],
)
def test_what_is_silent(text: str, count: int) -> None:
    """Texts that only expect; not those that pass on what another module says."""
    assert len([*silent(ast.parse(text))]) == count
