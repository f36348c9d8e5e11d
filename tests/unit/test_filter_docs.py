"""The specification, docs/filters.md, is true: each line of its tables is run."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sowline.filter import FilterError, compile_filter

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "filters.md"


def rows(*headings: str) -> Iterator[list[str]]:
    """The rows of all tables with these headings, code marks removed."""
    in_table = False
    for line in DOCUMENTATION.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.replace(r"\|", "\0").strip("|").split("|")]
        if not line.startswith("|"):
            in_table = False
        elif tuple(cells) == headings:
            in_table = True
        elif in_table and not cells[0].startswith("---"):
            yield [cell.replace("\0", "|").removeprefix("`").removesuffix("`") for cell in cells]


EXAMPLES = list(rows("filter", "document", "result"))
ERRORS = list(rows("filter", "error"))


@pytest.mark.parametrize(("text", "document", "result"), EXAMPLES)
def test_example(text: str, document: str, result: str) -> None:
    """A filter shown with a document is of it what the table says."""
    body = json.loads(document)
    is_true = compile_filter(text).matches(body)
    is_false = compile_filter(f"NOT ({text})").matches(body)
    assert (is_true, is_false) == (result == "TRUE", result == "FALSE")


@pytest.mark.parametrize(("text", "message"), ERRORS)
def test_error(text: str, message: str) -> None:
    """A text shown with an error is refused with exactly that sentence."""
    with pytest.raises(FilterError) as error:
        compile_filter(text)
    assert str(error.value) == message


def test_all_tables_are_found() -> None:
    """No table of the specification escapes: each table row is an example, an error, or a heading."""
    lines = DOCUMENTATION.read_text(encoding="utf-8").splitlines()
    tables = sum(line.startswith("|---") for line in lines)
    assert sum(line.startswith("|") for line in lines) == len(EXAMPLES) + len(ERRORS) + 2 * tables
