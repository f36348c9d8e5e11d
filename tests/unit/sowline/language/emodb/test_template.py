"""Templates: what documents read with, and their own content."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sowline.language.emodb.template import hidden_by, own_content, read_template, read_with

fields = st.dictionaries(st.sampled_from("abcd"), st.none() | st.integers(0, 2) | st.just({"x": 1}))


@given(fields, fields)
def test_the_content_comes_back(content: dict[str, Any], template: dict[str, Any]) -> None:
    """Field by field and in its order, whatever the template has over it."""
    read = read_with(content, template)
    assert read == {**content, **template}
    assert list(own_content(read, hidden_by(template, content), template).items()) == list(content.items())


def test_a_template_is_read_from_its_text() -> None:
    """Without one there are no fields."""
    assert (read_template('{"a":1}'), read_template(None)) == ({"a": 1}, {})
