"""The paths of the fields that a delta names, as a tree."""

from collections.abc import Sequence
from typing import Any

import pytest

from sowline.codecs.field_tree import field_tree
from sowline.errors import SowlineError
from sowline.model.path import Path


def accepted(_path: Path) -> None:
    """Refuse no path."""


@pytest.mark.parametrize(
    ("paths", "tree"),
    [
        ([], {}),
        (["/id"], {"id": None}),
        (["/customer/name", "/id"], {"customer": {"name": None}, "id": None}),
        (["/a/b/c", "/a/b/d", "/a/e"], {"a": {"b": {"c": None, "d": None}, "e": None}}),
        (["/a", "/a"], {"a": None}),
        (["[/not a name]/x"], {"not a name": {"x": None}}),
    ],
)
def test_paths_become_a_tree(paths: Sequence[str], tree: dict[str, Any]) -> None:
    """Fields of one object are together; None is a field that is named as a whole."""
    assert field_tree(paths, accepted) == tree


@pytest.mark.parametrize("paths", [["/a", "/a/b"], ["/a/b", "/a"], ["/a", "/a/b/c"]])
def test_a_whole_field_has_all_fields_in_it(paths: Sequence[str]) -> None:
    """In whichever order the two are named."""
    assert field_tree(paths, accepted) == {"a": None}


def test_each_path_is_checked() -> None:
    """The error of the check is the answer."""
    checked: list[str] = []

    def check(path: Path) -> None:
        checked.append(str(path))
        if path.steps == ("none",):
            raise SowlineError("bad header", "expected a field of the schema")

    assert field_tree(["/a/b", "/c"], check) == {"a": {"b": None}, "c": None}
    assert checked == ["/a/b", "/c"]
    with pytest.raises(SowlineError, match="expected a field of the schema"):
        field_tree(["/none"], check)


@pytest.mark.parametrize("text", ["id", "", "/", "/a[", "a/b"])
def test_a_text_that_is_no_path_is_a_bad_header(text: str) -> None:
    """The header is at fault, and no path is checked."""
    with pytest.raises(SowlineError, match="expected paths of fields: ") as refused:
        field_tree([text], accepted)
    assert refused.value.reason == "bad header"
