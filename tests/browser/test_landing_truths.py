"""Two parts of the demo's landing page that show the same thing agree, and what is old says so."""

import pytest
from playwright.sync_api import Page

pytestmark = pytest.mark.needs("chromium")


@pytest.mark.parametrize("width", [290, 700])
def test_the_line_ends_at_the_number(parts: Page, width: int) -> None:
    """The number is the newest sample, and so is the last point, however narrow the chart and slow the others."""
    number, ends = parts.evaluate(
        """(width) => {
          document.body.innerHTML = `<svg style="width: ${width}px; height: 200px"></svg>`;
          const chart = new latency.LatencyChart(document.querySelector("svg"));
          const ends = (shown) => {
            chart.draw(120, [], "now");
            const points = document.querySelector("polyline").getAttribute("points").split(" ");
            const lines = [...document.querySelectorAll(".grid")].map((line) => Number(line.getAttribute("y1")));
            const [bottom, next] = lines;
            return 10 ** ((bottom - Number(points.at(-1).split(",")[1])) / (bottom - next));
          };
          chart.add(Array.from({ length: 479 }, (_, at) => [at / 4, 250 - at / 2]));
          chart.add([[119.75, 35]]);
          const first = ends();
          // Where nothing comes, both stay.
          chart.add([[120, null]]);
          return [chart.last, [first, ends()]];
        }""",
        width,
    )
    assert number == 35
    assert ends == pytest.approx([35, 35], rel=0.02)
