"""A subscriber's view in the demo, its comparison with a recomputation, and the summary."""

import orjson

from examples.flights.data import key_text
from examples.flights.summary import Summary
from examples.flights.view import View, differences, percentile
from sowline import Message

HOUR = "2013-01-01T10:00:00Z"


def body(flight: int, status: str = "late") -> bytes:
    """Return the body of a flight."""
    return orjson.dumps({"carrier": "UA", "flight": flight, "time_hour": HOUR, "status": status})


def key(flight: int) -> str:
    """Return the key text of a flight."""
    return key_text("UA", flight, HOUR)


def test_view_follows_its_subscription() -> None:
    """A view is the group, then each publish and OOF applied to it."""
    view = View()
    view.take(Message("group_begin"), 0)
    view.take(Message("sow", sow_key="1", body=body(1)), 0)
    view.take(Message("group_end"), 0)
    view.take(Message("publish", sow_key="2", body=body(2)), 0)
    view.take(Message("publish", sow_key="2", body=body(2, "landed")), 0)
    view.take(Message("oof", sow_key="1", body=body(1), reason="deleted"), 0)
    assert view.bodies == {"2": body(2, "landed")}
    assert (view.complete, view.changes, view.oofs) == (True, 3, 1)


def test_new_group_replaces_the_view() -> None:
    """A second group begins the view again."""
    view = View()
    view.take(Message("publish", sow_key="1", body=body(1)), 0)
    view.take(Message("group_begin"), 0)
    assert not view.bodies


def test_latency() -> None:
    """Latency is the time from the append to the log to the arrival, of changes only."""
    view = View()
    view.take(Message("sow", sow_key="1", body=body(1), timestamp="1970-01-01T00:00:01.000000Z"), 9)
    view.take(Message("publish", sow_key="1", body=body(1), timestamp="1970-01-01T00:00:01.500000Z"), 1.75)
    assert list(view.latencies_ms) == [250.0]
    assert (view.came_s, view.written_s) == (1.75, 1.5)


def test_a_stall() -> None:
    """Nothing came for long although something was written; where nothing was written, as at night, there is none."""
    view = View()
    for written_s, came_s in ((1, 1.5), (30, 30.5), (31, 65.5), (32, 65.6), (100, 110.5)):
        stamp = f"1970-01-01T00:{written_s // 60:02}:{written_s % 60:02}.000000Z"
        view.take(Message("publish", sow_key="1", body=body(1), timestamp=stamp), came_s)
    assert view.stalls == [(31, 65.5), (100, 110.5)]


def test_the_summary_tells_what_became_of_visitors_commands() -> None:
    """Refused ones are counted apart from those of the pipeline."""
    numbers = (5, 5, 1, 0, 3, 5, 0, 0)
    summary = Summary("JFK", *numbers, latencies_ms=[], by_visitors=3, refused_visits=2)
    lines = [" ".join(line.split()) for line in summary.lines()]
    assert lines[3:6] == [
        "records of Spark that Sowline refused 0",
        "commands that visitors wrote 3",
        "commands of visitors that Sowline refused 2",
    ]


def test_equal_views_have_no_differences() -> None:
    """Bodies that are what was expected, in any order of fields, make no sentence."""
    reordered = orjson.dumps(dict(reversed(orjson.loads(body(1)).items())))
    assert differences({key(1): orjson.loads(body(1))}, [reordered]).sentence("the SOW") is None


def test_differences() -> None:
    """What is missing, unexpected or different is counted, and one of each is named."""
    expected = {key(number): orjson.loads(body(number)) for number in (1, 2, 3)}
    found = differences(expected, [body(1), body(2, "landed"), body(4)])
    assert found.sentence("the SOW") == (
        f"the SOW differs from a recomputation: 1 missing (such as {key(3)}); "
        f"1 there and should not be (such as {key(4)}); 1 different (such as {key(2)})"
    )


def test_record_there_twice() -> None:
    """A record that is found twice is one that should not be there."""
    assert differences({key(1): orjson.loads(body(1))}, [body(1), body(1)]).unexpected == [key(1)]


def test_percentile() -> None:
    """A percentile is one of the values; of none there is none."""
    assert [percentile([3.0, 1.0, 2.0], share) for share in (0.0, 0.5, 0.99, 1.0)] == [1.0, 2.0, 3.0, 3.0]
    assert percentile([], 0.5) is None


def test_summary() -> None:
    """The summary is an aligned table; a number that was not taken is a dash."""
    summary = Summary(
        airport="JFK",
        facts=12345,
        records_in=12345,
        deltas=6000,
        dead_letters=0,
        sow_size=None,
        changes_out=12345,
        oofs=3,
        board_oofs=28,
        latencies_ms=[12.4],
        groups={"delays": 300, "arrivals": None},
    )
    lines = summary.lines()
    assert len({len(line) for line in lines}) == 1
    assert [" ".join(line.split()) for line in lines] == [
        "facts about flights that were fed 12,345",
        "records that Spark wrote to Kafka 12,345",
        "changes of some fields among them 6,000",
        "records of Spark that Sowline refused 0",
        "flights that Sowline holds -",
        "records of the view delays 300",
        "records of the view arrivals -",
        "changes that Sowline sent 12,345",
        "flights that were cancelled, and deleted 3",
        "flights that left the JFK board in the terminal 28",
        "from Kafka to a subscriber, median 12 ms",
        "from Kafka to a subscriber, 99 of 100 within 12 ms",
    ]
    within = "99 of 100 within, stalls included"
    slow = summary._replace(latencies_ms=[19_120.0])
    for waited in (slow._replace(outages=1), slow._replace(stalls=1)):
        last = waited.lines()[-1]
        assert len(last) < 80, "a terminal would break it into two lines"
        assert " ".join(last.split()) == f"from Kafka to a subscriber, {within} 19.1 s"


def test_verdict() -> None:
    """It says what was compared with what, in numbers."""
    numbers = (5, 5, 1, 0, 3, 5, 0, 0)
    summary = Summary("JFK", *numbers, latencies_ms=[], groups={"delays": 2, "arrivals": 1})
    verdict = summary.verdict()
    assert verdict.startswith("nothing was lost: the demo worked out from the 5 facts about flights")
    assert "all 3 flights that Sowline holds" in verdict
    assert verdict.endswith("all 2 records of the view delays, all 1 records of the view arrivals")
    assert "visitors" not in verdict
    assert "visitors wrote are left out" in summary._replace(by_visitors=1).verdict()
