"""Draw an SVG of every `.dot` file here: `python -m docs.drawings.draw`, with Graphviz's `dot` on `PATH`.

The first line of a source, a comment, is the drawing's title. An SVG carries the digest of its source and of the
common style. A test compares this digest with the present source, and needs no Graphviz for it.
"""

import hashlib
import subprocess
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).parent
SVG = "{http://www.w3.org/2000/svg}"

# Lines and the text on them stand on the page itself, light or dark: their contrast is about the same with both.
ON_PAGE = "#757d85"
IN_BOX = "#14202b"
BOX = "#dbe7f3"
_FONT = "Helvetica,Arial,sans-serif"
STYLE = (
    *("-Gbgcolor=transparent", f"-Gfontname={_FONT}", f"-Gfontcolor={ON_PAGE}", f"-Gcolor={ON_PAGE}"),
    *(
        "-Nshape=box",
        "-Nstyle=rounded,filled",
        f"-Nfillcolor={BOX}",
        f"-Ncolor={ON_PAGE}",
        "-Nmargin=0.2,0.09",
    ),
    *(f"-Nfontname={_FONT}", f"-Nfontcolor={IN_BOX}", "-Nfontsize=13"),
    *(f"-Efontname={_FONT}", f"-Efontcolor={ON_PAGE}", "-Efontsize=13", f"-Ecolor={ON_PAGE}"),
)


def digest_of(source: str) -> str:
    """Return the digest of a drawing's source and of the style that all drawings share."""
    return hashlib.sha256("\n".join([*STYLE, source]).encode()).hexdigest()


def title_of(source: str) -> str:
    """Return the title of a drawing: its first line, without the `//`."""
    return source.partition("\n")[0].removeprefix("//").strip()


def svg_of(source: str) -> str:
    """Return the SVG of a Graphviz source; `CalledProcessError` if Graphviz refuses it."""
    drawn = subprocess.run(
        ["dot", "-Tsvg", *STYLE], input=source, capture_output=True, text=True, check=True
    ).stdout
    root = ElementTree.fromstring(drawn)
    for element in list(root.iter()):
        # Graphviz names every box and line; a browser would show these names as tooltips.
        for name in element.findall(f"{SVG}title"):
            element.remove(name)
    title = ElementTree.Element(f"{SVG}title")
    title.text = title_of(source)
    title.tail = "\n"
    root.insert(0, title)
    root.set("role", "img")
    root.set("data-source-sha256", digest_of(source))
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def main() -> None:
    """Write all drawings again."""
    ElementTree.register_namespace("", SVG.strip("{}"))
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    for path in sorted(HERE.glob("*.dot")):
        path.with_suffix(".svg").write_text(svg_of(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
