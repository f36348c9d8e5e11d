"""Tables in Markdown, and the pages that they are written into."""

from collections.abc import Iterable, Sequence
from pathlib import Path


def table(checkpoint: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = (checkpoint, ["---"] * len(checkpoint), *rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def medians_of(runs: int) -> str:
    """Return what the figures of a table are, for its caption."""
    return "one run" if runs == 1 else f"medians of {runs}"


def write_into(pages: Sequence[Path], name: str, text: str) -> None:
    """Replace the text between the two marker lines with this name; raises if no page has them."""
    begin, end = f"<!-- bench {name} -->\n", f"<!-- end of bench {name} -->\n"
    for page in pages:
        before, found, rest = page.read_text().partition(begin)
        _, ended, after = rest.partition(end)
        if found and ended:
            page.write_text(f"{before}{begin}\n{text}\n\n{end}{after}")
            return
    raise ValueError(f"expected the lines {begin.strip()} and {end.strip()} in {', '.join(map(str, pages))}")
