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


def test_a_chart_that_lacks_what_was_fed_says_so(parts: Page) -> None:
    """It lacks facts that are no newer than the clock; at night it is old, and lacks nothing."""
    found = parts.evaluate(
        """() => {
          const hour = 3600;
          const at = new moments.Moments();
          const take = (name, hours) => at.take(name, [{ moment: new Date(hours * hour * 1000).toISOString() }]);
          const lacks = (speed = hour) => at.lacks("map", speed) / hour;
          const found = [lacks()];
          take("map", 3);
          take("departures", 6.5);
          at.feed("map", undefined);
          // In the night nothing was fed for it, and the clock is not yet at what was fed afterwards.
          for (const fed of [3, 7]) at.feed("map", fed * hour);
          found.push(lacks());
          take("departures", 8);
          found.push(lacks());
          take("map", 6.75);
          found.push(lacks(), lacks(60), lacks(null));
          at.end(9 * hour);
          return [...found, lacks()];
        }"""
    )
    assert found == [0, 0, 4, 0, 0.25, 0, 0]


def test_a_chart_that_lacks_something_is_seen(parts: Page) -> None:
    """Its words stand out from those of the others, in light and dark."""
    for scheme in ("light", "dark"):
        parts.emulate_media(color_scheme=scheme)
        parts.evaluate("""dressed("<p class='as-of'>a</p><p class='as-of lacking'>b</p>")""")
        usual, lacking = parts.locator(".as-of").evaluate_all(
            "nodes => nodes.map((node) => [getComputedStyle(node).color, getComputedStyle(node).fontWeight])"
        )
        assert usual[0] != lacking[0]
        assert lacking[1] == "600"
    parts.emulate_media(color_scheme=None)


def test_no_outage_of_the_chart_is_missing_in_the_log(parts: Page) -> None:
    """The newest are listed with what came of them; the others are counted and named in a sentence."""
    few, more = parts.evaluate(
        """() => {
          const what = "Kafka was killed";
          const line = (at) => ({ kind: at === 3 ? "bad" : "ok", when: `10:00:0${9 - at}`, what });
          const lines = Array.from({ length: 10 }, (_, at) => line(at));
          return [2, 4].map((number) => outage.earlier(lines.slice(0, number)));
        }"""
    )
    assert few == ""
    assert more == (
        "2 earlier, 1 of them with a problem: 10:00:07 Kafka was killed; 10:00:06 Kafka was killed."
    )
