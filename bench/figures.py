"""`python -m bench.figures`: draws the README's chart from the tables of docs/performance.md."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
CHART = DOCS / "pictures" / "figures.svg"
BAR, GAP, WIDTH, VALUE = 18, 10, 720, 44
LINE, LABEL = 20, 17
"""The heights of a title and of a label, which is above its bar, where a long label has room."""
STYLE = """
text { font: 13px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #5c6773 }
.title { font-weight: 600; font-size: 14px } .value { font-weight: 600 }
.ours { fill: #2f7fd1 } .other { fill: #a9b4bf }
text.ours { font-weight: 600 }
@media (prefers-color-scheme: dark) { text { fill: #9dabba } .ours { fill: #6bb2ff } .other { fill: #566372 } }
"""
OURS = {
    "materializer, one process": "Sowline, native core",
    "materializer, one process, with publishers' numbers": "Sowline, native core, with publishers' numbers",
    "publish to subscriber over WebSocket": "Sowline, native core, to a subscriber over WebSocket",
}
"""Our rows of the tables, and what the chart calls them."""
OTHERS = {"bare relay: two hops of Kafka, no state": "two bare hops through Kafka, which keep no state"}


def rows_of(page: str, name: str) -> list[list[str]]:
    """Return the cells of a measured table, without its head."""
    text = page.partition(f"<!-- bench {name} -->")[2].partition(f"<!-- end of bench {name} -->")[0]
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return [cells for cells in lines[2:] if len(cells) > 2]


def chart(page: str) -> str:
    """Return the chart as SVG: microseconds of CPU for a merged record, and milliseconds to a subscriber."""
    peers = {
        cells[0]: float(cells[2]) for cells in rows_of(page, "peers") if re.fullmatch(r"[\d.]+", cells[2])
    }
    relay = {cells[0]: float(cells[1]) for cells in rows_of(page, "relay") if cells[0] != "ratio"}
    merging = {name: value for name, value in peers.items() if "raw loop" not in name and "each" not in name}
    parts, y = [], 0
    for title, bars in (
        ("CPU to merge a record, µs (less is better)", merging),
        ("Publish to receipt, median ms (less is better)", relay),
    ):
        parts.append(f'<text x="0" y="{y + 14}" class="title">{title}</text>')
        y += LINE + GAP
        most = max(bars.values())
        for name, value in bars.items():
            width = (WIDTH - VALUE) * value / most
            kind, label = ("ours", OURS[name]) if name in OURS else ("other", OTHERS.get(name, name))
            of_label = ' class="ours"' if kind == "ours" else ""
            parts += [
                f'<text x="0" y="{y + 12}"{of_label}>{label}</text>',
                f'<rect x="0" y="{y + LABEL}" width="{width:.0f}" height="{BAR}" rx="3" class="{kind}"/>',
                f'<text x="{width + 6:.0f}" y="{y + LABEL + 14}" class="value">{value:.1f}</text>',
            ]
            y += LABEL + BAR + GAP
        y += LINE
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y - LINE}" role="img">\n'
        f"<title>Sowline beside others in the same run</title>\n<style>{STYLE}</style>\n{body}\n</svg>\n"
    )


if __name__ == "__main__":
    CHART.write_text(chart((DOCS / "performance.md").read_text(encoding="utf-8")), encoding="utf-8")
