"""What is stored or sent is checked on both sides: where it is written, and where it is read again.

A wrong count in a checkpoint is then found by the program that writes it. Bytes that no program of this version has
written are found by the one that reads them, before they become state.
"""

import ast
import re

import pytest

from tests.docs.test_asserts import PACKAGES, Function
from tests.docs.test_comments import ROOT
from tests.docs.test_privates import tree_of

CHANGES = "sowline/changes"
CORE = "materializer/sowline_materializer/core"
SNAPSHOTS = "query_service/sowline_query_service/snapshots"
ENGINE = "sowline/subscriptions/engine"

PAIRS = {
    "a change in the changes topic": (
        f"{CHANGES}/change.py::Change.headers",
        f"{CHANGES}/event.py::read_event",
    ),
    "a progress event": (f"{CHANGES}/progress.py::Progress.value", f"{CHANGES}/event.py::_read_progress"),
    "partial states of a view": (
        f"{CHANGES}/partials.py::Partials.encode",
        f"{CHANGES}/partials.py::read_partials",
    ),
    "the states that a group keeps": (
        f"{CHANGES}/partials.py::encode_held",
        f"{CHANGES}/partials.py::read_held",
    ),
    "a group that is merged": (
        "sowline/language/groups/layout.py::exported_text",
        "sowline/language/groups/layout.py::ExportedGroup.read",
    ),
    "a command in the log": (
        "sowline/commands/command.py::command_headers",
        "sowline/commands/command.py::read_command",
    ),
    "a stored record": (f"{CORE}/record.py::encode_record", f"{CORE}/record.py::decode_record"),
    "a checkpoint": (f"{CORE}/checkpoint.py::Checkpoint.encode", f"{CORE}/checkpoint.py::Checkpoint.decode"),
    "the records of a backup": (
        "materializer/sowline_materializer/admin/backup.py::_write_entries",
        "materializer/sowline_materializer/admin/backup.py::read_entries",
    ),
    "a record that joins hold": (
        "views/sowline_views/core/joins.py::_Held.encode",
        "views/sowline_views/core/joins.py::_Held.decode",
    ),
    "a block of a snapshot": (f"{SNAPSHOTS}/block.py::encoded", f"{SNAPSHOTS}/block.py::decoded"),
    "the index of a snapshot": (
        f"{SNAPSHOTS}/block.py::encoded_index",
        f"{SNAPSHOTS}/block.py::decoded_index",
    ),
    "the manifest of a snapshot": (f"{SNAPSHOTS}/manifest.py::written", f"{SNAPSHOTS}/manifest.py::read"),
    "a change for a gateway": (
        "sowline/subscriptions/live/relayed_change.py::relayed_message",
        "gateway/sowline_gateway/subscriptions/outlets.py::WholeChange.__init__",
    ),
    "a record of a view for a gateway": (
        f"{ENGINE}/shown.py::ShownRecord.relayed",
        f"{ENGINE}/shown.py::ShownRecord.read",
    ),
    "the checksum that proves a client's records": (
        "sowline/subscriptions/live/progress.py::put_window_checksum",
        "gateway/sowline_gateway/subscriptions/checksum.py::NodeChecksums.add",
    ),
    "a binary frame": (
        "sowline/wire/typed_frame.py::write_typed",
        "sowline/wire/typed_frame.py::split_typed",
    ),
}
"""What crosses a boundary: the function that writes it, and the one that reads it."""

BY_NAME = re.compile(r"(en|de)coded?(_|$)")
"""Names of functions that write or read what is stored."""


def functions_of(tree: ast.AST) -> dict[str, Function]:
    """Return the functions of a module and the methods of its classes, by name."""
    found: dict[str, Function] = {}
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            found[node.name] = node
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{one.name}": one for one in node.body if isinstance(one, Function)}
    return found


def decoders_of(tree: ast.AST) -> set[str]:
    """Return the names of a module's decoders of a type, which refuse everything else."""
    return {
        ast.unparse(node.targets[0])
        for node in ast.iter_child_nodes(tree)
        if isinstance(node, ast.Assign)
        and re.fullmatch(r"\S+\.Decoder\(.+\)\.decode", ast.unparse(node.value))
    }


def _refuses(function: Function) -> bool:
    return any(isinstance(node, ast.Assert | ast.Raise) for node in ast.walk(function))


def is_checked(tree: ast.AST, name: str) -> bool:
    """Whether a function asserts or refuses something: itself, with a decoder, or by a function that it calls."""
    functions, function = functions_of(tree), functions_of(tree)[name]
    called = {ast.unparse(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}
    return (
        _refuses(function)
        or bool(called & decoders_of(tree))
        or any(one.startswith("require_") for one in called)
        or any(one in functions and _refuses(functions[one]) for one in called)
    )


SIDES = [(what, side) for what, sides in PAIRS.items() for side in sides]


@pytest.mark.parametrize(("what", "side"), SIDES, ids=[side for _, side in SIDES])
def test_both_sides_are_checked(what: str, side: str) -> None:
    """By an assert of what must be true, or by a refusal of what may be wrong."""
    path, _, name = side.partition("::")
    assert is_checked(tree_of(ROOT / path), name), f"{side}: expected that it asserts or checks {what}"


def test_each_codec_is_a_side() -> None:
    """Of the packages that hold state: a codec without its other half is found here."""
    listed = {side for _, side in SIDES}
    missing = [
        side
        for package in PACKAGES
        for path in sorted((ROOT / package).glob("*.py"))
        for name in functions_of(tree_of(path))
        if BY_NAME.match(name.rpartition(".")[2])
        if (side := f"{path.relative_to(ROOT)}::{name}") not in listed
    ]
    assert not missing, "\n".join(f"{side}: expected in PAIRS, with the other side" for side in missing)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f(x):\n    return x\n", False),
        ("def f(x):\n    assert x, 'there is some'\n", True),
        ("def f(x):\n    try:\n        g()\n    except E:\n        raise F\n", True),
        ("def f(x):\n    return g(x)\ndef g(x):\n    raise E\n", True),
        ("def f(x):\n    return g(x)\ndef g(x):\n    return x\n", False),
        ("_read = msgspec.json.Decoder(Held).decode\ndef f(x):\n    return _read(x)\n", True),
        ("_read = msgspec.json.Encoder().encode\ndef f(x):\n    return _read(x)\n", False),
        ("def f(x):\n    require_format(x)\n", True),
    ],
)
def test_what_is_a_check(text: str, found: bool) -> None:
    """An assert or an error, also of a function that is called; a decoder that knows its type."""
    assert is_checked(ast.parse(text), "f") is found
