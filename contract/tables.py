"""The tables of docs/api.md that list commands, fields, options and messages."""

from collections.abc import Iterable, Mapping

from contract.field_docs import docs_of
from contract.frames import option_docs
from contract.schemas import Schema
from sowline.wire.command_fields import FIELDS, NODE_FIELDS
from sowline.wire.options import FORMS
from sowline.wire.request_fields import RequestFields


def with_tables(page: str, frames: Schema) -> str:
    """Return the page with its tables as they should be now."""
    for name, lines in _tables(frames).items():
        begin, end = f"<!-- protocol {name} -->\n", f"<!-- end of protocol {name} -->\n"
        before, _, rest = page.partition(begin)
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"expected {begin.strip()} and {end.strip()} in the page")
        page = "".join([before, begin, "\n", *lines, "\n", end, after])
    return page


def _tables(frames: Schema) -> Mapping[str, Iterable[str]]:
    return {
        "commands": _table(
            ("command", "what it does", "required fields"),
            ((f"`{name}`", one.about, _names(one.needed)) for name, one in FIELDS.items()),
        ),
        "fields": _table(
            ("field", "meaning"),
            ((f"`{name}`", text) for name, text in docs_of(RequestFields).items() if name not in NODE_FIELDS),
        ),
        "options": _table(
            ("option", "meaning"), ((f"`{form}`", option_docs()[name]) for name, form in FORMS.items())
        ),
        "messages": _table(
            ("message", "what it is", "fields", "optional fields"),
            (_message(frames, name) for name in _messages(frames)),
        ),
    }


def _messages(frames: Schema) -> Iterable[str]:
    """Yield the names of the schemas of messages, in the order of the description."""
    for part in [*frames["$defs"]["ServerMessage"]["anyOf"], {"$ref": "StreamFailure"}]:
        name = part["$ref"].rpartition("/")[2]
        yield from (_references(frames, name) if "properties" not in frames["$defs"][name] else [name])


def _references(frames: Schema, name: str) -> Iterable[str]:
    return (part["$ref"].rpartition("/")[2] for part in frames["$defs"][name]["anyOf"])


def _message(frames: Schema, name: str) -> tuple[str, ...]:
    schema = frames["$defs"][name]
    fields = [field for field in schema["properties"] if field != "command"]
    needed = [field for field in fields if field in schema["required"]]
    return (
        f"`{schema['properties']['command']['const']}`",
        schema["description"],
        _names(needed),
        _names(field for field in fields if field not in needed),
    )


def _names(fields: Iterable[str]) -> str:
    return ", ".join(f"`{field}`" for field in fields)


def _table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [_row(headings), f"|{'---|' * len(headings)}\n", *map(_row, rows)]


def _row(cells: tuple[str, ...]) -> str:
    return f"|{'|'.join(_cell(cell) for cell in cells)}|\n"


def _cell(text: str) -> str:
    escaped = text.replace("|", r"\|")
    return f" {escaped} " if text else " "
