"""Options: the words and pairs that a command may carry."""

import pytest

from sowline.errors import SowlineError
from sowline.options import Options, parse_options


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", Options()),
        (" , ,", Options()),
        ("oof", Options(oof=True)),
        ("oof, timestamp ,no_sowkey,reset", Options(oof=True, timestamp=True, no_sowkey=True, reset=True)),
        ("oof,oof", Options(oof=True)),
        ("bookmark_not_found=reset", Options(reset=True)),
        ("bookmark_not_found=fail", Options()),
        ("reset,bookmark_not_found=fail", Options()),
    ],
)
def test_known_options(text: str, options: Options) -> None:
    """Known words are switched on, in any order; spaces and empty parts do not matter."""
    assert parse_options(text) == options


@pytest.mark.parametrize(
    "text",
    [
        "OOF",
        "off",
        "oof=1",
        "oof timestamp",
        "bookmark_not_found",
        "bookmark_not_found=now",
        "select=[/a,/b]",
        "=",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    """An unknown option is an error that names it and what there is."""
    with pytest.raises(SowlineError, match="expected any of oof") as error:
        parse_options(f"reset,{text}")
    assert error.value.reason == "invalid options"
    assert text.split(",")[0] in error.value.message
