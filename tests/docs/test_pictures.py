"""The pictures of the pages: each is there, small, and described; the chart shows the figures of the tables."""

import re

import pytest

from bench import figures
from tests.docs.pages import ROOT

PICTURE = re.compile(r"!\[([^]]*)\]\(([^)]+)\)")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHOWN = [
    (page, text, page.parent / target)
    for page in PAGES
    for text, target in PICTURE.findall(page.read_text(encoding="utf-8"))
]
BYTES_MAX = 600_000


@pytest.mark.parametrize(("page", "text", "picture"), SHOWN, ids=lambda value: getattr(value, "name", None))
def test_a_picture_is_there_and_described(page: object, text: str, picture: object) -> None:
    """A reader who does not see it reads what it shows."""
    path = ROOT / str(picture)
    assert path.is_file()
    assert path.stat().st_size <= BYTES_MAX
    assert len(text.split()) >= 3


def test_every_picture_is_shown() -> None:
    """A picture that no page shows is of no use."""
    shown = {picture.resolve() for _, _, picture in SHOWN}
    assert {path.resolve() for path in (ROOT / "docs" / "pictures").iterdir()} <= shown


def test_the_chart_shows_the_measured_figures() -> None:
    """`python -m bench.figures` draws it again after a measurement."""
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert figures.CHART.read_text(encoding="utf-8") == figures.chart(page)


def test_the_readme_quotes_the_measured_figures() -> None:
    """Each number of its paragraph on speed is in a table."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    paragraph = readme.partition("On two cores, one materializer")[2].partition("![")[0]
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    without_versions = re.sub(r"\d+\.\d+\.\d+", "", paragraph)
    numbers = re.findall(r"\d[\d,]*\.?\d*", without_versions)
    cells = [cell for name in ("peers", "relay") for row in figures.rows_of(page, name) for cell in row]
    assert numbers
    assert [number for number in numbers if number not in cells] == []


def test_llms_txt_names_every_page() -> None:
    """Programs that read the docs find all of them there."""
    text = (ROOT / "docs" / "llms.txt").read_text(encoding="utf-8")
    named = set(re.findall(r"\]\(([\w./-]+\.md)\)", text))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert named == pages
