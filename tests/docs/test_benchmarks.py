"""The benchmarks that pages name exist."""

import re

from bench.__main__ import BENCHMARKS
from tests.docs.pages import PAGES, text_of


def test_benchmarks_on_pages() -> None:
    """`make bench ARGS="materialize --runs 3"` names one; what follows it are options."""
    given = re.compile(r'make bench ARGS="?([a-z_]+)')
    named = {(page, name) for page in PAGES for name in given.findall(text_of(page))}
    assert (".github/CONTRIBUTING.md", "materialize") in named
    assert [(page, name) for page, name in sorted(named) if name not in BENCHMARKS] == []
