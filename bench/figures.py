"""`python -m bench.figures`: draws the README's chart from the tables of docs/performance.md."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
CHART = DOCS / "pictures" / "figures.svg"
BAR, GAP, LEFT, WIDTH = 20, 8, 250, 640
OURS = "#2f7fd1"
OTHERS = "#8a97a5"


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
        parts.append(f'<text x="0" y="{y + 16}" class="title">{title}</text>')
        y += 30
        most = max(bars.values())
        for name, value in bars.items():
            width = (WIDTH - LEFT - 50) * value / most
            color = OURS if "materializer" in name or "subscriber" in name else OTHERS
            parts += [
                f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{name.partition(":")[0]}</text>',
                f'<rect x="{LEFT}" y="{y}" width="{width:.0f}" height="{BAR}" rx="3" fill="{color}"/>',
                f'<text x="{LEFT + width + 6:.0f}" y="{y + 15}">{value:g}</text>',
            ]
            y += BAR + GAP
        y += 14
    style = "text { font: 13px sans-serif; fill: #6b7785 } .title { font-weight: bold }"
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" role="img">\n'
        f"<title>Sowline beside others in the same run</title>\n<style>{style}</style>\n{body}\n</svg>\n"
    )


if __name__ == "__main__":
    CHART.write_text(chart((DOCS / "performance.md").read_text(encoding="utf-8")), encoding="utf-8")
