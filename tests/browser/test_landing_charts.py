"""The charts of the demo's landing page, each alone in a real browser, with records of the tests' own."""

from itertools import pairwise

import pytest
from playwright.sync_api import Page

pytestmark = pytest.mark.needs("chromium")


def test_the_latency_has_gaps(parts: Page) -> None:
    """Where no change comes, no line is drawn; the axis ends now or, afterwards, at the end."""
    parts.evaluate(
        """() => {
          document.body.innerHTML = "<svg style='width: 400px; height: 200px'></svg>";
          window.chart = new latency.LatencyChart(document.querySelector("svg"));
          const samples = [[10, 5], [11, 5], [13, null], [14, 5], [15, null]];
          for (const sample of samples) chart.add([sample]);
          // The stream was opened again.
          chart.add(samples);
        }"""
    )
    axis = "[...document.querySelectorAll('[data-key^=\"at \"]')].map((node) => node.textContent)"
    assert parts.evaluate(f"(chart.draw(20, [], 'now'), {axis})") == ["now", "1 min ago", "2 min ago"]
    assert parts.locator("polyline").count() == 2
    assert parts.evaluate(f"(chart.draw(20, [], 'end'), {axis})") == ["end", "1 min before", "2 min before"]


def test_the_scale_holds_what_was_measured(parts: Page) -> None:
    """A latency of many seconds is inside of the axis, and seen though it stands alone."""
    parts.evaluate(
        """() => {
          document.body.innerHTML = "<svg style='width: 400px; height: 200px'></svg>";
          const chart = new latency.LatencyChart(document.querySelector("svg"));
          chart.add([[10, 5], [11, null], [12, 19_120]]);
          chart.draw(20, [], "now");
        }"""
    )
    assert parts.locator("text.axis", has_text="100 s").count() == 1
    assert (
        parts.locator("circle").evaluate_all("nodes => nodes.map((node) => node.getAttribute('r'))")
        == ["1.5"] * 2
    )
    top, bottom = (
        float(parts.locator(f"[data-key='line {tick}']").get_attribute("y1") or 0)
        for tick in ("100 s", "10 s")
    )
    assert top < float(parts.locator("circle").last.get_attribute("cy") or 0) < bottom


def test_the_scale_holds_the_latencies_of_the_summary(parts: Page) -> None:
    """The axis includes the latencies of the whole run, even if those of the last two minutes were all lower."""
    parts.evaluate(
        """() => {
          document.body.innerHTML = "<svg style='width: 400px; height: 200px'></svg>";
          const chart = new latency.LatencyChart(document.querySelector("svg"));
          chart.add([[10, 5], [11, 5]]);
          chart.mark([["median 8 ms", 8], ["99 of 100 within 14.7 s", 14_700]]);
          chart.draw(20, [], "end");
        }"""
    )
    assert parts.locator(".mark-label").all_text_contents() == ["median 8 ms", "99 of 100 within 14.7 s"]
    worst, top, bottom = (
        float(parts.locator(f"[data-key='{key}']").get_attribute("y1") or 0)
        for key in ("mark 99 of 100 within 14.7 s", "line 100 s", "line 10 s")
    )
    assert top < worst < bottom


@pytest.mark.parametrize("width", [600, 320])
def test_the_text_of_a_mark_covers_nothing(parts: Page, width: int) -> None:
    """It stands where the chart is empty, and says what its line is; where no room is for that, it is left out."""
    parts.evaluate(
        """async (width) => {
          await dressed(`<svg style="width: ${width}px; height: 200px"></svg>`);
          const chart = new latency.LatencyChart(document.querySelector("svg"));
          chart.add([[30, 9000], [31, 30000], [32, 9000], [40, 150], [60, 150]]);
          chart.mark([["whole run: 99 of 100 within 33.2 s", 33_200], ["whole run: median 151 ms", 151]]);
          chart.draw(120, [{ since: 58, until: 70 }], "end");
        }""",
        width,
    )
    labels = parts.locator(".mark-label")
    boxes = labels.evaluate_all(
        "nodes => nodes.map((node) => node.getBBox()).map(({ x, y, width, height }) => [x, y, x + width, y + height])"
    )
    points = parts.locator("polyline").get_attribute("points") or ""
    outage = parts.locator(".outage")
    band = [float(outage.get_attribute("x") or 0)]
    band.append(band[0] + float(outage.get_attribute("width") or 0))
    for left, top, right, bottom in boxes:
        assert right <= band[0] or band[1] <= left
        for point in points.split():
            x, y = map(float, point.split(","))
            assert not (left < x < right and top < y < bottom)
    # None is a number alone.
    whole = ["whole run: 99 of 100 within 33.2 s", "whole run: median 151 ms"]
    assert labels.all_text_contents() == {600: whole, 320: ["median 151 ms"]}[width]
    # Where the line goes up and down around a mark, its text stands further away, with a stroke to the mark.
    stroke = parts.evaluate(
        """() => {
          const chart = new latency.LatencyChart(document.querySelector("svg"));
          chart.add(Array.from({ length: 120 }, (_, at) => [at, at % 2 ? 60 : 300]));
          chart.mark([["whole run: median 151 ms", 151]]);
          chart.draw(120, [], "end");
          const boxes = [".mark-label", ".mark", ".lead"].map((name) => document.querySelector(name).getBBox());
          const [text, mark, lead] = boxes;
          const isBeyond = text.y + text.height < mark.y || mark.y < text.y;
          return [isBeyond, lead.height > 1, lead.y <= mark.y + 1 && mark.y - 1 <= lead.y + lead.height];
        }"""
    )
    assert stroke == [True, True, True]


BOXES = """(nodes) => nodes.map((node) => node.getBoundingClientRect())
  .map(({ left, right }) => [left, right]).sort(([one], [other]) => one - other)"""


@pytest.mark.parametrize("width", [290, 620])
def test_each_outage_has_its_length(parts: Page, width: int) -> None:
    """However short it is, and however close to another one: a stroke leads from the length to its own box."""
    parts.evaluate(
        """async (width) => {
          await dressed(`<svg style="width: ${width}px; height: 200px"></svg>`);
          window.chart = new latency.LatencyChart(document.querySelector("svg"));
          chart.add([[0, 5]]);
        }""",
        width,
    )
    boxes = f"""({BOXES})([...document.querySelectorAll(".outage-label")])"""
    for spans in ("[70, 90], [107, 120]", "[90, 105], [107, 120]", "[1, 2], [3, 4], [5, 7]", "[118, 119]"):
        outages = f"[{spans}].map(([since, until]) => ({{ since, until }}))"
        found = parts.evaluate(f"(chart.draw(120, {outages}, 'now'), {boxes})")
        marked = parts.locator(".outage").evaluate_all(BOXES)
        strokes = parts.locator(".stroke").evaluate_all(
            """(nodes) => nodes.map(({ x1, x2 }) => [x1, x2].map(({ baseVal }) => baseVal.value))
              .sort(([one], [other]) => one - other)"""
        )
        assert len(found) == len(marked) == len(strokes) == spans.count("[")
        assert all(one[1] < other[0] for one, other in pairwise(found))
        edge = parts.locator("svg").evaluate("node => node.getBoundingClientRect().left")
        assert edge <= found[0][0]
        assert found[-1][1] <= edge + width
        for label, box, stroke in zip(found, marked, strokes, strict=True):
            assert label[0] < edge + stroke[0] < label[1]
            assert box[0] <= edge + stroke[1] <= box[1]


def test_a_narrow_line_has_fewer_points(parts: Page) -> None:
    """One for each few pixels, and the slowest sample is among them."""
    points = parts.evaluate(
        """() => [290, 1160].map((width) => {
          document.body.innerHTML = `<svg style="width: ${width}px; height: 200px"></svg>`;
          const chart = new latency.LatencyChart(document.querySelector("svg"));
          chart.add(Array.from({ length: 480 }, (_, at) => [at / 4, at === 201 ? 900 : 10 + (at % 7)]));
          chart.draw(120, [], "now");
          const points = document.querySelector("polyline").getAttribute("points").split(" ");
          const tops = points.map((point) => Number(point.split(",")[1]));
          return [points.length, Math.min(...tops)];
        })"""
    )
    (few, high), (many, highest) = points
    assert few <= 290 / 3 < 2 * few
    assert many > 3 * few
    assert high == highest


def test_small_carriers_are_merged(parts: Page) -> None:
    """Each tile has room for a name; the merged ones have the average of their flights, and their names."""
    sizes = "[[600, 1], [370, 2], [20, 10], [9, 0], [1, 30]]"
    item = "([value, delay], index) => ({ carrier: `c${index}`, name: `n${index}`, value, delay })"
    tiles = parts.evaluate(f"charts.merged({sizes}.map({item}))")
    assert [tile["name"] for tile in tiles] == ["n0", "n1", "3 others"]
    assert (tiles[2]["names"], tiles[2]["value"]) == ("n2, n3, n4", 30)
    assert tiles[2]["delay"] == pytest.approx(230 / 30)
    assert len(parts.evaluate("charts.merged([{ value: 1 }])")) == 1


def test_a_tile_has_its_name_and_number(parts: Page) -> None:
    """In two lines or in one, by its code where the name has no room, or neither; its title has all."""
    parts.evaluate(
        """() => {
          document.body.innerHTML = "<svg id='carriers'></svg><span></span>";
          window.tile = (width, height) => {
            const svg = document.querySelector("svg");
            svg.style.cssText = `flex: none; min-height: 0; width: ${width}px; height: ${height}px`;
            const all = document.querySelector("span");
            charts.drawCarriers(svg, all, [{ carrier: "UA", flights: 57, delay_min: 3 }]);
            return [...svg.querySelectorAll("text")].map((node) => node.textContent);
          };
        }"""
    )
    assert parts.evaluate("tile(300, 100)") == ["United Air Lines", "57 flights"]
    assert parts.evaluate("tile(300, 30)") == ["United Air Lines: 57"]
    assert parts.evaluate("tile(130, 30)") == ["UA: 57"]
    assert parts.evaluate("tile(60, 30)") == ["UA: 57"]
    assert parts.evaluate("tile(60, 100)") == ["UA", "57"]
    assert parts.evaluate("tile(40, 30)") == parts.evaluate("tile(300, 18)") == []
    title = parts.locator("#carriers rect title").text_content()
    assert title == "United Air Lines: 57 flights, on average 3 min late"
    legend = parts.locator("body > span").text_content()
    assert (
        legend == "area and number: departed flights, 57 in all; where a name has no room, the carrier’s code"
    )


def test_a_treemap_that_is_loading_has_no_number(parts: Page) -> None:
    """It does not say that no flight has departed beside a map of arrivals."""
    legend = parts.evaluate(
        """() => {
          document.body.innerHTML = "<svg></svg><span>area</span>";
          charts.drawCarriers(...document.body.children, []);
          return document.querySelector("span").textContent;
        }"""
    )
    assert legend == ""


def test_the_scale_of_delays(parts: Page) -> None:
    """Early and late have ends of their own, and 0 is the middle."""
    fills = parts.evaluate("[-20, -5, 0, 15, 99].map(svg.delayFill)")
    ends = [
        (fill.partition("--delay-")[2].partition(")")[0], fill.partition(") ")[2].partition(",")[0])
        for fill in fills
    ]
    assert ends == [("early", "100%"), ("early", "50%"), ("late", "0%"), ("late", "50%"), ("late", "100%")]
    shades = ["on-shade", "on-shade strong", "on-shade strong full"]
    assert parts.evaluate("[0, 15, 30].map(svg.onShade)") == shades


def test_codes_lie_over_no_other_dot(parts: Page) -> None:
    """Each code stands on a side of its dot that is free, or further away, with a line to it; else it is left out."""
    overlaps, shown, cut = parts.evaluate(
        """() => {
          document.body.innerHTML = "<svg id='arrivals' viewBox='-58 8 1040 600'></svg><p></p><ol></ol><p></p>";
          const [drawing, ...parts] = document.body.children;
          drawing.style.cssText = "width: 520px; height: 300px; max-height: none";
          const at = (dest, flights, lat, lon) => (
            { dest, airport: { name: dest }, flights, delay_min: 0, lat, lon });
          const near = ["AAA", "BBB", "CCC", "DDD"].map((dest, n) => at(dest, 100 - n, 40 + n * 0.6, -80));
          const south = at("MIA", 60, 24.2, -80.3);
          new map.ArrivalsMap(drawing, ...parts).draw([...near, at("LAX", 50, 33.9, -118.4), south]);
          const box = (node) => node.getBoundingClientRect();
          const dots = [...drawing.querySelectorAll("circle")].map(box);
          const codes = [...drawing.querySelectorAll(".code")];
          const over = codes.filter((code) => dots.some((dot) => {
            const { left, right, top, bottom } = box(code);
            const [x, y, r] = [(dot.left + dot.right) / 2, (dot.top + dot.bottom) / 2, dot.width / 2 - 1];
            const [across, down] = [Math.max(left, Math.min(x, right)), Math.max(top + 2, Math.min(y, bottom - 2))];
            return Math.hypot(x - across, y - down) < r;
          }));
          const bottom = box(drawing).bottom;
          const cut = codes.filter((code) => box(code).bottom > bottom + 1);
          return [over, codes, cut].map((some) => some.map((code) => code.textContent));
        }"""
    )
    assert overlaps == cut == []
    assert {"AAA", "LAX"} <= set(shown)


GAPS = """async () => {
  await dressed("<svg id='arrivals' viewBox='-58 8 1040 600'></svg><p></p><ol></ol><p></p>");
  const [drawing, ...parts] = document.body.children;
  drawing.style.cssText = "width: 520px; height: 300px; max-height: none";
  const at = (dest, flights, lat, lon) => ({ dest, airport: { name: dest }, flights, delay_min: 0, lat, lon });
  // The east of Florida, where dots lie one over the other; and two airports that have no other one near.
  new map.ArrivalsMap(drawing, ...parts).draw([
    at("MCO", 140, 28.43, -81.31), at("FLL", 120, 26.07, -80.15), at("MIA", 118, 25.79, -80.29),
    at("PBI", 65, 26.68, -80.1), at("TPA", 74, 27.98, -82.53), at("RSW", 35, 26.54, -81.76),
    at("LAX", 160, 33.94, -118.41), at("DEN", 70, 39.86, -104.67),
  ]);
  const box = (node) => node.getBoundingClientRect();
  const dots = [...drawing.querySelectorAll("circle")].map((dot) => [dot.dataset.key, box(dot)]);
  const hasLine = ({ dataset: { key } }) => drawing.querySelector(`[data-key="${key} line"]`);
  const beside = [...drawing.querySelectorAll(".code")].filter((code) => !hasLine(code));
  return Object.fromEntries(beside.map((code) => {
    const { left, right, top, bottom } = box(code);
    const gaps = dots.map(([key, dot]) => {
      const [x, y] = [(dot.left + dot.right) / 2, (dot.top + dot.bottom) / 2];
      const [across, down] = [Math.max(left, Math.min(x, right)), Math.max(top, Math.min(y, bottom))];
      return [Math.hypot(x - across, y - down) - dot.width / 2, key];
    });
    return [code.textContent, gaps.sort(([one], [other]) => one - other).map(([, key]) => key)[0]];
  }));
}"""


def test_a_code_is_next_to_its_own_dot(parts: Page) -> None:
    """Where dots lie close together, a code that could be read as another one's has a line, or is left out."""
    nearest = parts.evaluate(GAPS)
    assert {"LAX", "DEN", "MCO"} <= set(nearest)
    assert nearest == {code: code for code in nearest}


def test_new_york_is_named_where_no_dot_is(parts: Page) -> None:
    """Its name is further south, or left out; an airport beyond the edge of the map has no dot, and is named."""
    found = parts.evaluate(
        """async () => {
          await dressed("<svg id='arrivals' viewBox='-58 8 1040 612'></svg><p></p><ol></ol><p></p>");
          const [drawing, ...parts] = document.body.children;
          drawing.style.cssText = "width: 420px; max-height: none";
          const drawn = new map.ArrivalsMap(drawing, ...parts);
          const at = (dest, lat, lon) => ({ dest, airport: { name: dest }, flights: 9, delay_min: 0, lat, lon });
          const sea = [[40, -71], [38.5, -70.5], [37, -70], [38.5, -72.5], [40, -73]];
          return [[], sea.slice(0, 1), sea].map((dots) => {
            drawn.draw([at("SJU", 18.4, -66), ...dots.map(([lat, lon], n) => at(`D${n}`, lat, lon))], true);
            const names = [...drawing.querySelectorAll(".place")].map((node) => Number(node.getAttribute("y")));
            return [drawing.querySelectorAll("circle").length, names, parts.at(-1).textContent];
          });
        }"""
    )
    assert {beyond for *_, beyond in found} == {"not on the map: 9 flights to SJU"}
    (none, [usual], _), (one, [lower], _), (all_, left_out, _) = found
    assert (none, one, all_) == (0, 1, 5)
    assert usual < lower
    assert left_out == []


def test_a_map_without_arrivals_says_so(parts: Page) -> None:
    """In the first hours, no flight has landed; while the view is loading, that is unknown."""
    found = parts.evaluate(
        """() => {
          document.body.innerHTML = "<svg viewBox='-58 8 1040 600'></svg><p></p><ol></ol><p></p>";
          const drawn = new map.ArrivalsMap(...document.body.children);
          return [false, true].map((isLive) => {
            drawn.draw([], isLive);
            return document.querySelector("ol").textContent;
          });
        }"""
    )
    assert found == ["", "No flight has landed yet."]


def test_colors_keep_their_hue_while_a_part_is_dead(parts: Page) -> None:
    """Early and late are two colors then, too."""
    parts.evaluate("dressed('<div class=data><i class=ramp></i></div>')")
    for phase in ("down", "catching-up", "lost"):
        parts.evaluate("phase => { document.body.dataset.phase = phase; }", phase)
        style = "node => [getComputedStyle(node).filter, Number(getComputedStyle(node).opacity) < 1]"
        assert parts.locator(".ramp").evaluate(style) == ["none", True]


def test_how_far_the_year_was_fed(parts: Page) -> None:
    """After midnight, only flights of the day before land: the page names the moment, and no day of flights."""
    assert (
        parts.evaluate("text.upTo(Date.parse('2013-01-09T06:28:00Z') / 1000)") == "up to 01:28 on 9 January"
    )
