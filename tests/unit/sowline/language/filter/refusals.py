"""What a text that is not a filter is refused with."""

import pytest

from sowline.language.filter.compiled import compile_filter
from sowline.language.filter.errors import FilterError


def refusal(text: str) -> FilterError:
    """Return the error that the text is refused with."""
    with pytest.raises(FilterError) as error:
        compile_filter(text)
    return error.value
