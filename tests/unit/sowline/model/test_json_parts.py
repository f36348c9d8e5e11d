"""The kinds of parts of a JSON document."""

import orjson
import pytest

from sowline.model.json_parts import is_array, is_object


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ('{"a": 1}', (True, False)),
        ("[1]", (False, True)),
        ('"text"', (False, False)),
        ("null", (False, False)),
    ],
)
def test_kinds(text: str, kinds: tuple[bool, bool]) -> None:
    """A part is of one kind at most."""
    part = orjson.loads(text)
    assert (is_object(part), is_array(part)) == kinds
