"""The drawings of the pages: each belongs to its source, is on a page, and is readable on light and dark."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.drawings.draw import HERE, IN_BOX, ON_PAGE, SVG, digest_of, title_of

DOCS = HERE.parent
SOURCES = sorted(HERE.glob("*.dot"))
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
PAGE_COLORS = ("#ffffff", "#131416", "#0d1117")
"""The backgrounds of the site, light and dark, and of a dark repository viewer."""


def contrast(one: str, other: str) -> float:
    """The contrast of two `#rrggbb` colors as WCAG defines it, from 1 to 21."""

    def luminance(color: str) -> float:
        parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def shown() -> list[tuple[Path, str, Path]]:
    """Every local image of a page: the page, the alternative text, the file."""
    return [
        (page, text, page.parent / target)
        for page in sorted(DOCS.rglob("*.md"))
        for text, target in IMAGE.findall(page.read_text(encoding="utf-8"))
        if "://" not in target
    ]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_drawing_belongs_to_its_source(source: Path) -> None:
    """Otherwise run `python -m docs.drawings.draw`, which needs Graphviz."""
    text = source.read_text(encoding="utf-8")
    assert text.startswith("// ")
    root = ElementTree.parse(source.with_suffix(".svg")).getroot()
    assert root.get("data-source-sha256") == digest_of(text)
    assert [title.text for title in root.iter(f"{SVG}title")] == [title_of(text)]


def test_every_drawing_has_a_source() -> None:
    """An SVG without a source cannot be drawn again."""
    assert {path.stem for path in HERE.glob("*.svg")} == {path.stem for path in SOURCES}


def test_pages_show_every_drawing() -> None:
    """With a text for those who do not see it."""
    images = shown()
    assert [
        (page.name, image.name) for page, text, image in images if not (text.strip() and image.is_file())
    ] == []
    assert {image.resolve() for _, _, image in images} >= {
        path.with_suffix(".svg").resolve() for path in SOURCES
    }


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_a_drawing_is_readable_on_light_and_dark(source: Path) -> None:
    """Text outside of boxes has a color for both; text in a box has the box as its background."""
    root = ElementTree.parse(source.with_suffix(".svg")).getroot()
    shapes = [element for kind in ("polygon", "path") for element in root.iter(f"{SVG}{kind}")]
    boxes = {shape.get("fill", "black") for shape in shapes} - {"none", "transparent", ON_PAGE}
    assert {shape.get("stroke") for shape in shapes} <= {ON_PAGE, "none", "transparent", None}
    assert {text.get("fill") for text in root.iter(f"{SVG}text")} <= {IN_BOX, ON_PAGE}
    assert min(contrast(IN_BOX, box) for box in boxes) >= 7
    assert min(contrast(ON_PAGE, page) for page in PAGE_COLORS) >= 4
