"""The pages make a site: every link leads somewhere, every page is in the navigation, nothing is from outside."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sowline import __version__

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [path.relative_to(DOCS).with_suffix("") for path in sorted(DOCS.rglob("*.md"))]
# What a browser fetches to show a page; links (`<a href>`) it does not.
FETCHED = re.compile(r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=\"(?:https?:)?//[^\"]*\"")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it. What Sphinx complains of is an error: links, anchors, pages left out."""
    target = tmp_path_factory.mktemp("site")
    recipe = (ROOT / "Makefile").read_text().split("\ndocs: ")[1]
    options = re.findall(r"python -m sphinx (.*) \. build/docs", recipe)[0].split()
    build = [sys.executable, "-m", "sphinx", *options, "-d", str(target / ".doctrees"), ".", str(target)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return target


def test_every_page_is_there(site: Path) -> None:
    """With the version, and the navigation on it; the entrance leads to the first."""
    assert "docs/index.html" in (site / "index.html").read_text()
    for page in PAGES:
        text = (site / "docs" / f"{page}.html").read_text()
        assert f"Sowline {__version__}" in text
        assert 'class="sidebar-tree"' in text


def test_the_navigation_has_the_four_kinds(site: Path) -> None:
    """Anyone who wants to learn, to do, to look up or to understand finds where."""
    kinds = re.findall(
        r'<p class="caption"[^>]*><span class="caption-text">(.*?)<', (site / "docs/index.html").read_text()
    )
    assert list(dict.fromkeys(kinds)) == ["Tutorial", "How-to guides", "Reference", "Explanation", "Project"]


def test_it_needs_no_network(site: Path) -> None:
    """Fonts, styles and scripts are its own."""
    fetched = [(path.name, *FETCHED.findall(path.read_text())) for path in site.rglob("*.html")]
    assert [found for found in fetched if len(found) > 1] == []
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert re.findall(r"url\([\"']?(?:https?:)?//[^)]*\)|@import", styles) == []


def test_its_search_knows_the_pages(site: Path) -> None:
    """The words of a page are in the index that the browser searches."""
    index = (site / "searchindex.js").read_text()
    assert all(f'"docs/{page}"' in index for page in PAGES)
    assert '"conflat"' in index
