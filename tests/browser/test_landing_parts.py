"""The parts of the demo's landing page, each alone in a real browser, with records of the tests' own."""

from typing import Any

import pytest
from playwright.sync_api import Page

pytestmark = pytest.mark.needs("chromium")

MOMENT = "Date.parse('2013-01-02T17:00:00Z') / 1000"
"""Noon of a day in New York."""


@pytest.fixture
def rows(parts: Page) -> Page:
    """A part of the board, which `show` gives flights by their numbers."""
    parts.evaluate(
        """() => {
          document.body.innerHTML = "<table><tbody></tbody></table>";
          const part = new board.Board(document.querySelector("tbody"));
          window.fill = (record, moment) => part.show([{ key: "1", record }], moment);
          window.show = (...numbers) => part.show(numbers.map((flight) => (
            { key: String(flight), record: { carrier: "UA", flight, status: "late" } })), 0);
        }"""
    )
    return parts


def _flights(page: Page) -> list[str]:
    return page.locator("tbody tr td:nth-child(2)").all_inner_texts()


def test_a_change_moves_no_other_row(rows: Page) -> None:
    """A row that is put in again slides in again: if that happened to all of them, the whole board would fade."""
    rows.evaluate(
        """() => {
          show(2, 3, 4);
          window.watcher = new MutationObserver(() => {});
          watcher.observe(document.querySelector("tbody"), { childList: true });
        }"""
    )
    moves = "watcher.takeRecords().map(({ addedNodes, removedNodes }) => [addedNodes.length, removedNodes.length])"
    assert rows.evaluate(f"(show(2, 3, 4), {moves})") == []
    assert rows.evaluate(f"(show(1, 2, 3, 4), {moves})") == [[1, 0]]
    assert rows.evaluate(f"(show(1, 3, 4), {moves})") == [[0, 1]]
    assert rows.evaluate(f"(show(1, 3, 4, 5), {moves})") == [[1, 0]]
    assert _flights(rows) == [f"UA {number} United Air Lines" for number in (1, 3, 4, 5)]


@pytest.mark.parametrize(
    ("record", "due", "status", "delay"),
    [
        ({"status": "scheduled", "hour": "18", "due": "13:30"}, "13:30", "scheduled", ""),
        ({"status": "scheduled", "hour": "16", "due": "11:50"}, "11:50", "at the gate", "+10"),
        ({"status": "late", "hour": "16", "due": "11:10"}, "11:10", "at the gate", "+50"),
        (
            {"status": "departed late", "hour": "15", "due": "10:05", "dep_delay_min": 31},
            "10:05",
            "in flight",
            "+31",
        ),
    ],
    ids=lambda value: value["status"] if isinstance(value, dict) else None,
)
def test_a_row_is_as_of_the_moment(
    rows: Page, record: dict[str, Any], due: str, status: str, delay: str
) -> None:
    """A flight whose time has passed has waited until the moment of the board; one that departed has its delay.

    One that is at the gate looks so, whether the feed has called it late or not.
    """
    flight = {"carrier": "UA", "flight": 1, "time_hour": f"2013-01-02T{record['hour']}:00:00Z"}
    sent = flight | record | {"sched_dep_local": record["due"]}
    rows.evaluate(f"record => fill(record, {MOMENT})", sent)
    cells = rows.locator("tbody td").all_inner_texts()
    assert (cells[0].strip(), cells[3], cells[4]) == (due, status, delay)
    shown = {"scheduled": "scheduled", "at the gate": "late", "in flight": "departed late"}[status]
    assert rows.locator("tbody tr").first.get_attribute("data-status") == shown


def test_a_row_of_another_day_has_its_date(rows: Page) -> None:
    """A flight that was due yesterday says so; what a visitor writes instead of an hour is left out."""
    flight = {"carrier": "UA", "flight": 1, "status": "late", "sched_dep_local": "23:30"}
    rows.evaluate(f"record => fill(record, {MOMENT})", flight | {"time_hour": "2013-01-02T04:00:00Z"})
    assert rows.locator("tbody td").first.inner_text() == "23:30 1 Jan"
    rows.evaluate(f"record => fill(record, {MOMENT})", flight | {"time_hour": "soon"})
    assert rows.locator("tbody td").first.inner_text() == "23:30"


@pytest.fixture
def departures(parts: Page) -> Page:
    """The whole board; `drawn` draws so many late and so many next flights, numbered from 1, in a height."""
    parts.evaluate(
        """async () => {
          const part = (name) => `<tbody><tr class="part"><th><span class="${name}-count"></span></th></tr></tbody>
            <tbody class="${name}"></tbody>`;
          await dressed(`<section><div class="rows" style="flex: none"><table hidden>
            <thead><tr><th>Due</th></tr></thead>${part("late")}${part("next")}
            <tbody><tr class="part rest" hidden><th>Last</th></tr></tbody><tbody class="gone"></tbody></table>
            <p class="empty"></p></div><p class="left"></p></section>`);
          window.whole = new departures.Departures(document.querySelector("section"));
          window.drawn = (late, next, height) => {
            const rows = document.querySelector(".rows");
            rows.style.height = rows.style.minHeight = `${height}px`;
            const entries = Array.from({ length: late + next }, (_, index) => {
              const status = index < late ? "late" : "scheduled";
              return { key: String(index), record: { carrier: "UA", flight: index + 1, status } };
            });
            for (let time = 0; time < 2; time += 1) whole.draw(entries, 0, true);
            const numbers = (rows) => [...rows].map((row) => Number(row.children[1].textContent.split(" ")[1]));
            return [".late tr", ".next tr"].map((rows) => numbers(document.querySelectorAll(rows)));
          };
        }"""
    )
    return parts


def test_the_board_is_filled(departures: Page) -> None:
    """Late flights that were due last stand before those that are next; each part takes what the other one leaves."""
    late, following = departures.evaluate("drawn(30, 30, 560)")
    assert late == list(range(31 - len(late), 31))
    assert following == list(range(31, 36))
    rows = len(late) + len(following)
    assert rows >= 12
    shown = departures.locator(".late-count").inner_text()
    assert shown == f"30 flights, 30 of them still at the gate; the {len(late)} due last:"
    assert departures.locator(".next-count").inner_text() == "30 flights; the first 5:"
    assert [len(part) for part in departures.evaluate("drawn(2, 30, 560)")] == [2, rows - 2]
    assert [len(part) for part in departures.evaluate("drawn(30, 1, 560)")] == [rows - 1, 1]
    assert len(departures.evaluate("drawn(30, 30, 1000)")[0]) > len(late)
    box, last = (departures.locator(name).last.bounding_box() for name in (".rows", ".next tr"))
    assert box
    assert last
    assert abs(box["y"] + box["height"] - last["y"] - last["height"]) < 16
    assert departures.evaluate("drawn(1, 0, 560)") == [[1], []]
    assert departures.locator(".next-count").inner_text() == "none"
    assert departures.evaluate("drawn(0, 0, 560)") == [[], []]
    assert departures.locator(".empty").inner_text() == "No flight is due at this hour."


def test_what_became_of_a_flight_that_left(departures: Page) -> None:
    """A late flight that is no longer there has landed or was cancelled; of the others nothing is said."""
    departures.evaluate(
        """() => {
          const removed = (flight, status, reason) => (
            { type: "remove", key: `gone ${flight}`, before: { carrier: "UA", flight, status }, reason });
          const landed = removed(1, "departed late", "match");
          const gone = removed(2, "scheduled", "match");
          whole.take({ changes: [landed, gone, { type: "insert" }, removed(3, "late", "deleted")] });
          drawn(30, 30, 560);
        }"""
    )
    assert departures.locator(".left").inner_text() == "Last to leave the board: UA 3 cancelled, UA 1 landed"
    assert departures.locator(".gone tr:visible, .rest:visible").count() == 0


def test_flights_that_left_fill_an_empty_board(departures: Page) -> None:
    """At night, few flights are due; one that comes back is not among those that left."""
    departures.evaluate(
        """() => {
          const removed = (flight, reason) => ({ type: "remove", key: String(flight - 1), reason,
            before: { carrier: "UA", flight, status: "late", dep_delay_min: 20 } });
          whole.take({ changes: Array.from({ length: 60 }, (_, index) => removed(60 - index, "match")) });
          whole.take({ changes: [removed(2, "deleted")] });
          drawn(1, 0, 560);
        }"""
    )
    cells = departures.locator(".gone tr")
    assert [one.split("\t")[1:] for one in cells.all_inner_texts()[:2]] == [
        ["UA 2 United Air Lines", "??? → ???", "cancelled", ""],
        ["UA 3 United Air Lines", "??? → ???", "landed", "+20"],
    ]
    assert departures.locator(".left").inner_text() == ""
    box, last = (departures.locator(name).last.bounding_box() for name in (".rows", ".gone tr"))
    assert box
    assert last
    assert -1 < box["y"] + box["height"] - last["y"] - last["height"] < 40
    departures.evaluate("drawn(0, 0, 560)")
    assert cells.first.locator("td").nth(1).inner_text() == "UA 2 United Air Lines"
    assert departures.locator(".empty").is_hidden()


DUE = """(flight, status, hours, more) => ({ key: String(flight), record: { carrier: "UA", flight, status,
  time_hour: new Date((NOON - hours * 3600) * 1000).toISOString(), sched_dep_local: "12:00", ...more } })"""


def test_a_flight_without_news_is_not_next(departures: Page) -> None:
    """While news is on its way, a flight whose time has long passed is counted apart, and is in no row."""
    departures.evaluate(
        f"""() => {{
          const NOON = {MOMENT};
          const due = {DUE};
          whole.draw([due(1, "scheduled", 5), due(2, "scheduled", 0.2), due(3, "scheduled", -1)], NOON, true);
        }}"""
    )
    cells = departures.locator(".next tr").all_inner_texts()
    assert [one.split("\t")[1:4:2] for one in cells] == [
        ["UA 2 United Air Lines", "at the gate"],
        ["UA 3 United Air Lines", "scheduled"],
    ]
    counted = departures.locator(".next-count")
    assert counted.inner_text() == "2 flights; 1 more past their time, without news yet"
    found = f"[5, 0.2].map((hours) => whole.lacksNews([({DUE})(1, 'scheduled', hours).record], NOON))"
    assert departures.evaluate(f"() => {{ const NOON = {MOMENT}; return {found}; }}") == [True, False]


def test_no_flight_has_landed_before_it_can(departures: Page) -> None:
    """Its landing may come before other news; the clock of the board is then at an earlier moment."""
    shown = departures.evaluate(
        f"""() => {{
          const NOON = {MOMENT};
          const due = {DUE};
          const distance_miles = 2000;
          const late = [due(1, "late", 6, {{ distance_miles }}), due(3, "late", 2, {{ distance_miles }})];
          late.splice(1, 0, due(2, "departed late", 6, {{ dep_delay_min: 300, distance_miles }}));
          whole.draw(late, NOON, true);
          const changes = late.map(({{ key, record }}) => (
            {{ type: "remove", key, before: record, reason: key === "3" ? "deleted" : "match" }}));
          whole.take({{ changes }});
          const gone = () => [...document.querySelectorAll(".gone tr")].map((row) => row.children[3].textContent);
          // At first the page is held at its moment.
          return [[late, true], [[], false], [[], false, 3]].map(([entries, isHeld, hours = 0]) => {{
            for (let time = 0; time < 2; time += 1) whole.draw(entries, NOON + hours * 3600, true, isHeld);
            return gone();
          }});
        }}"""
    )
    assert shown == [[], ["cancelled", "landed"], ["cancelled", "landed", "landed"]]


def test_only_changed_rows_are_tinted(departures: Page) -> None:
    """A row that comes into sight, or whose record says the same of the flight, is not; a tinted one is legible."""
    first, later, opacity = departures.evaluate(
        """() => {
          const flights = () => [...document.querySelectorAll(".changed")].map((row) => row.children[1].textContent);
          const update = (key, status, before) => (
            { type: "update", key, record: { status }, before: { status: before } });
          whole.take({ changes: [{ type: "insert", key: "0", record: { status: "late" } }] });
          drawn(2, 2, 560);
          const first = flights();
          whole.take({ changes: [update("1", "late", "scheduled"), update("2", "scheduled", "scheduled")] });
          drawn(2, 5, 560);
          return [first, flights(), getComputedStyle(document.querySelector(".changed td")).opacity];
        }"""
    )
    assert (first, later, opacity) == ([], ["UA 2 United Air Lines"], "1")


def test_moments(parts: Page) -> None:
    """A view stands at its newest record, and never goes back; the page at the newest; at the end all at one."""
    parts.evaluate(
        """() => {
          window.at = new moments.Moments();
          window.read = () => [at.of("board"), at.of("map"), at.newest];
        }"""
    )
    assert parts.evaluate("read()") == [None, None, None]
    parts.evaluate(
        """() => {
          const [later, earlier] = [9, 5].map((second) => ({ moment: `1970-01-01T00:00:0${second}Z` }));
          at.take("board", [later, earlier, {}, { moment: "now" }]);
        }"""
    )
    parts.evaluate("""at.take("map", [{ moment: "1970-01-01T00:00:07Z" }])""")
    parts.evaluate("""at.take("board", [{ moment: "1970-01-01T00:00:06Z" }])""")
    assert parts.evaluate("read()") == [9, 7, 9]
    assert parts.evaluate("(at.end(11), read())") == [11, 11, 11]


def test_a_page_that_is_behind_the_feed_says_so(parts: Page) -> None:
    """By some seconds of its speed; a fact that no record shows is nothing to wait for."""
    found = parts.evaluate(
        """() => {
          const at = new moments.Moments();
          const late = (more) => at.late({ fed_until: 50_000, is_settled: false, speed: 3600, ...more });
          const unknown = late();
          at.take("departures", [{ moment: "1970-01-01T10:00:00Z" }]);
          const far = { fed_until: 60_000 };
          return [unknown, late(), late({ speed: 1 }), late({ speed: 1, fed_until: 36_030 }), late(far),
            late({ ...far, is_settled: true }), late({ ...far, speed: null })];
        }"""
    )
    assert found == [0, 0, 14_000, 0, 24_000, 0, 0]


def test_a_chart_that_is_behind_the_board_says_so(parts: Page) -> None:
    """A few simulated minutes are the way of a conflated view; an hour is not."""
    lag = parts.evaluate(
        """() => {
          const at = new moments.Moments();
          at.take("map", [{ moment: "2013-01-02T19:29:00Z" }]);
          const unknown = at.behind("map");
          at.take("departures", [{ moment: "2013-01-02T19:32:00Z" }]);
          const little = at.behind("map");
          at.take("departures", [{ moment: "2013-01-02T20:29:00Z" }]);
          return [unknown, little, at.behind("map"), at.behind("departures")];
        }"""
    )
    assert lag == [0, 0, 3600, 0]
    hours = ["10 flight minutes", "1 flight hour", "1.5 flight hours"]
    assert parts.evaluate("[600, 3600, 5400].map(text.lasting)") == hours


def test_only_a_running_feed_is_live(parts: Page) -> None:
    """While the feed waits for the comparison, the title does not say that the flights are live."""
    parts.evaluate("dressed('<span class=live>, live</span>')")
    for phase in ("starting", "live", "quiet", "down", "catching-up", "checking", "ending", "ended", "lost"):
        parts.evaluate("phase => { document.body.dataset.phase = phase; }", phase)
        assert parts.locator(".live").is_visible() == (phase == "live"), phase


EVENT = "{ part: 'kafka', pressed_s: 100, back_s: null, is_lossless: null, verdict: '', records: null }"


def test_the_past_tense_is_for_what_is_over(parts: Page) -> None:
    """While Kafka is dead, it is not yet restarted."""
    parts.evaluate(
        f"""() => {{
          window.outages = new outage.Outages();
          window.event = {EVENT};
          window.isSettled = false;
          window.taken = (more, now) => {{
            Object.assign(event, more);
            outages.take({{ events: [event], is_settled: isSettled }}, true, now);
            return outages.lines[0];
          }};
        }}"""
    )
    assert parts.evaluate("taken({}, 103).what") == "Kafka is dead"
    assert parts.evaluate("[outages.phase, outages.chip, outages.since]") == ["down", "Kafka dead", 100]
    assert parts.evaluate("outages.sinceWhat") == "since it was killed"
    # A change that was on its way at the kill comes after it.
    assert "No change" not in parts.evaluate("outages.lines[0].result")
    assert parts.evaluate("taken({ back_s: 5 }, 105.5).what") == "Kafka was killed and restarted"
    assert parts.evaluate("[outages.phase, outages.chip]") == ["catching-up", "Back: catching up"]
    assert "is arriving" in parts.evaluate("outages.lines[0].result")
    parts.evaluate("isSettled = true, taken({}, 105.8)")
    assert parts.evaluate("[outages.phase, outages.chip]") == ["checking", "Back: comparing every record"]
    found = parts.evaluate("taken({ is_lossless: true, verdict: 'nothing was lost', records: 7 }, 106)")
    assert found["result"] == "Back after 5.0 s. 7 flights compared: nothing was lost."


def test_what_is_old_is_not_live(parts: Page) -> None:
    """After ten seconds without a change, the page says for how long; before the first one, that there was none."""
    found = parts.evaluate(
        """() => {
          const outages = new outage.Outages();
          return [[100, 109.9], [100, 112.5], [null, 112.5]].map(([came, now]) => {
            outages.take({ events: [], is_settled: true, came_s: came }, true, now);
            return [outages.phase, outages.chip];
          });
        }"""
    )
    assert found == [["live", "Live"], ["quiet", "No change for 12 s"], ["quiet", "No change yet"]]


def test_a_stall_is_named_like_an_outage(parts: Page) -> None:
    """A part that hangs has no button: its time without changes has a band and a line, once, in order."""
    spans, lines = parts.evaluate(
        f"""() => {{
          const outages = new outage.Outages();
          const events = [{{ ...{EVENT}, back_s: 12, is_lossless: true, records: 7 }}];
          const stalls = [[50, 84], [101, 112], [200, 215]];
          outages.take({{ events, is_settled: true, came_s: 300, stalls }}, true, 300);
          return [outages.spans, outages.lines.map(({{ what }}) => what)];
        }}"""
    )
    assert [(span["since"], span["until"]) for span in spans] == [(50, 84), (100, 112), (200, 215)]
    assert lines == ["No changes for 15.0 s", "Kafka was killed and restarted", "No changes for 34.0 s"]


SHOWN_OF_THEM = "that they wrote is shown here, and left out of the comparison"
REFUSED = "1 was refused, and kept apart as a dead letter"


@pytest.mark.parametrize(
    ("sent", "refused", "visited", "sentence"),
    [
        (0, 0, 0, ""),
        (2, 2, 0, "Visitors sent 2 writes of their own: 2 were refused, and kept apart as dead letters."),
        (
            3,
            1,
            1,
            f"Visitors sent 3 writes of their own: {REFUSED}; 1 record {SHOWN_OF_THEM}.",
        ),
        (1, 0, 0, "Visitors sent 1 write of their own."),
    ],
    ids=["none", "refused", "both", "on its way"],
)
def test_what_became_of_visitors_commands(
    parts: Page, sent: int, refused: int, visited: int, sentence: str
) -> None:
    """What was refused is in no record, and is not said to be shown."""
    state = {"by_visitors": sent, "refused_visits": refused, "visited": visited}
    assert parts.evaluate("state => text.visits(state)", state) == sentence


def test_an_outage_has_one_length(parts: Page) -> None:
    """A page that saw it and connects again later, and a page that was opened afterwards, show the same length."""
    seen, phases = parts.evaluate(
        f"""() => {{
          const pages = [new outage.Outages(), new outage.Outages()];
          const back = {{ ...{EVENT}, back_s: 5 }};
          const phases = [[{EVENT}, false], [back, false], [back, true], [{{ ...back, is_lossless: true }}, true]]
            .map(([event, isLive], index) => {{
              pages[0].take({{ events: [event], is_settled: true, came_s: 103 }}, isLive, 103 + index);
              return pages[0].phase;
            }});
          pages[1].take({{ events: [{{ ...back, is_lossless: true }}], is_settled: true }}, true, 110);
          return [pages.map(({{ spans }}) => spans), phases];
        }}"""
    )
    assert seen == [[{"since": 100, "until": 105}]] * 2
    assert phases == ["down", "catching-up", "checking", "live"]


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ([], "Nothing was compared with what was fed."),
        ([True], "1 comparison before found that nothing was lost. What came afterwards was not compared."),
        (
            [True, None],
            "1 comparison before found that nothing was lost. What came afterwards was not compared.",
        ),
        (
            [True, False],
            "1 of 2 comparisons before found that nothing was lost. What came afterwards was not compared.",
        ),
    ],
    ids=["none", "one", "pending", "loss"],
)
def test_an_interrupted_demo_tells_of_its_comparisons(
    parts: Page, found: list[bool | None], sentence: str
) -> None:
    """It does not say that nothing was compared beside comparisons that were made."""
    checks = parts.evaluate(
        f"""(found) => {{
          const outages = new outage.Outages();
          outages.take({{ events: found.map((is_lossless) => ({{ ...{EVENT}, is_lossless }})) }}, true, 2);
          return outages.checks;
        }}""",
        found,
    )
    assert checks == sentence
