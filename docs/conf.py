"""How the pages become a site: `make docs`. The index page is the navigation, the pages are as they stand."""

import re
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

ROOT = Path(__file__).parents[1]
ABOUT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "Sowline"
release = version = ABOUT["version"]
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["docs/*.md", "docs/decisions/*.md", "*.md", ".github/*.md"]
exclude_patterns = [".[!g]*", ".git", "build", "dist", "var"]
nitpicky = True
myst_heading_anchors = 4
# What shows several messages, or leaves something out with `…`, is no JSON for a lexer.
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = f"Sowline {release}"
html_show_copyright = False
html_copy_source = False
html_additional_pages = {"index": "entrance.html"}
templates_path = ["templates"]

_SECTION = re.compile(r"^## (.*)\n((?:(?!^## ).*\n)*)", re.MULTILINE)
_PAGE = re.compile(r"^\| \[[^]]*\]\(([\w./-]+)\.md\)", re.MULTILINE)


def navigate(app: Sphinx, name: str, source: list[str]) -> None:
    """Make a part of the navigation of each section of an index page: of the pages that its table begins with."""
    if name == root_doc:
        for kind, table in _SECTION.findall(source[0]):
            pages = "\n".join(_PAGE.findall(table))
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {kind}\n\n{pages}\n```\n"
    elif name.endswith("/index"):
        pages = "\n".join(_PAGE.findall(source[0]))
        source[0] += f"\n```{{toctree}}\n:hidden:\n\n{pages}\n```\n"
    elif name == "README":
        # The front page of the repository: its links are checked, readers of the site have the index.
        source[0] = f"---\norphan: true\n---\n{source[0]}"


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("source-read", navigate)
