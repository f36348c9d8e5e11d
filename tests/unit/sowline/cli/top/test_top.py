"""`sowline top`: from two looks at services to a table, its text, and the terminal that it is drawn on."""

import os
import pty
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from sowline.cli import main
from sowline.cli.metrics_text import read_metrics
from sowline.cli.top.table import SORTS, Look, Looks, PartitionRow, ServiceRow, TopicRow, lines, table

METRICS = """
sowline_messages_sent_total {sent}
sowline_append_to_delivery_seconds_sum {took}
sowline_append_to_delivery_seconds_count {sent}
sowline_replica_behind_changes{{topic="orders"}} 8
sowline_replica_behind_changes{{topic="others"}} 3
sowline_sessions 2
sowline_index_bytes 2097152
sowline_history_bytes 100
sowline_timeline_bytes 0
"""
ORDERS = {"name": "orders", "log": "log", "records": 1000, "loading": False, "subscriptions": 3}


def query(url: str, position: int, changes: int, sent: int = 0, took: float = 0, **about: Any) -> Look:
    """Return a look at a query service that stands at a position in both partitions of a topic."""
    lags = [
        {"partition": number, "position": "", "lag": lag, "lag_seconds": seconds}
        for number, (lag, seconds) in enumerate(((position // 10, 0.5), (3, 2.25)))
    ]
    lag = {"lag": position // 10 + 3, "lag_seconds": 2.25, "lags": lags}
    topic = {**ORDERS, **lag, "bookmark": f"log:0@{position},1@{position}.2", "changes": changes, **about}
    return Look(url, None, "", read_metrics(METRICS.format(sent=sent, took=took)), (topic,))


def materializer(url: str, partition: int, behind: int) -> Look:
    """Return a look at a materializer that has one partition."""
    text = f'sowline_behind_records{{topic="log",partition="{partition}"}} {behind}\nsowline_partitions 1\n'
    return Look(url, None, "", read_metrics(text))


BEFORE = Looks(
    10.0,
    (query("q1", 99, 50, 7, 1.5), query("q2", 99, 50), materializer("m1", 0, 9), materializer("m2", 1, 0)),
)
NOW = Looks(
    12.0,
    (query("q1", 199, 80, 27, 2.5), query("q2", 149, 60), materializer("m1", 0, 4), materializer("m2", 1, 3)),
)


def test_topics_of_several_services() -> None:
    """Records and rates are those of the furthest replica, lags of the one furthest behind; subscriptions add up."""
    shown = table(BEFORE, NOW)
    assert shown.topics == (TopicRow("orders", 1000, 100.0, 15.0, 22, 2.25, 6, False),)
    assert shown.partitions == (
        PartitionRow("log", 0, "199", "m1", 19, 0.5),
        PartitionRow("log", 1, "199.2", "m2", 3, 2.25),
    )
    memory = {"indexes": 2 << 20, "histories": 100, "timelines": 0}
    assert shown.services == (
        ServiceRow("q1", "query service", "ready", 2, 10.0, memory, 11, 0.05),
        ServiceRow("q2", "query service", "ready", 2, 0.0, memory, 11, None),
        ServiceRow("m1", "materializer", "ready", 0, None, {}, 4, None),
        ServiceRow("m2", "materializer", "ready", 0, None, {}, 3, None),
    )
    assert orjson.loads(orjson.dumps(shown.fields()))["topics"][0]["log_rate"] == 100


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (None, query("q", 9, 1)),
        (query("q", 19, 10, 5), query("q", 9, 1)),
        (Look("q", "refused"), query("q", 9, 1)),
        (query("other", 9, 1), query("q", 9, 1)),
    ],
)
def test_unknown_rates(before: Look | None, now: Look) -> None:
    """No rates are known at first, after a restart, and of a service that has just started."""
    shown = table(None if before is None else Looks(1.0, (before,)), Looks(2.0, (now,)))
    (topic,) = shown.topics
    assert (topic.log_rate, topic.change_rate, shown.services[0].message_rate) == (None,) * 3
    assert shown.partitions[0].owner is None


def test_an_unknown_lag_is_not_zero() -> None:
    """If one of two replicas does not know how far it is behind, the topic's lag is not known."""
    unknown = {"partition": 0, "position": "", "lag": None, "lag_seconds": None}
    loading = query("q2", 1, 1, lag=None, lag_seconds=None, lags=[unknown, unknown | {"partition": 1}])
    shown = table(None, Looks(2.0, (query("q1", 199, 80), loading)))
    assert [(row.lag, row.lag_seconds) for row in shown.topics] == [(None, None)]
    assert [(row.lag, row.lag_seconds) for row in shown.partitions] == [(None, None)] * 2
    assert "orders    1,000      -          -    -      -              6" in lines(shown, 200)


def test_without_a_query_service_the_lag_is_that_of_the_owner() -> None:
    """Then nothing is known but what the materializers have to apply."""
    shown = table(None, Looks(2.0, (materializer("m1", 0, 9),)))
    assert shown.partitions == (PartitionRow("log", 0, None, "m1", 9, None),)


def test_why_a_lag_stays() -> None:
    """A partition behind an open transaction has its offset and its time, as far as one of the services knows it."""
    held = {"offset": 17, "written": "2026-03-01T10:00:00.000Z"}
    lag: dict[str, Any] = {"partition": 0, "position": "", "lag": 5, "lag_seconds": None}
    known = query("q1", 199, 80, lags=[lag | {"transaction": held}, lag | {"partition": 1}])
    shown = table(None, Looks(2.0, (known, query("q2", 199, 80))))
    assert [row.transaction for row in shown.partitions] == [held, None]
    text = lines(shown, 200)
    (row,) = [line for line in text if line.startswith("log [0]")]
    assert row.endswith("since offset 17, 2026-03-01T10:00:00.000Z")
    held["written"] = ""
    assert any(line.endswith("since offset 17, -") for line in lines(shown, 200))


def test_services_that_say_what_is_wrong() -> None:
    """One that is away has a row like all others, and so has one that complains; fanouts and views have no topics."""
    fanout = Look("f", None, "", read_metrics('sowline_fanout_messages_total{fanout="late"} 5\n'))
    of_views = 'sowline_view_states_total{view="totals"} 5\nsowline_view_behind_changes{view="totals"} 7\n'
    views = Look("v", None, "", read_metrics(of_views))
    looks = (Look("a", "refused"), replace(query("q", 1, 1), complaint="Kafka is away"), fanout, views)
    shown = table(Looks(1.0, looks), Looks(2.0, looks))
    assert [(row.kind, row.state) for row in shown.services] == [
        (None, "refused"),
        ("query service", "Kafka is away"),
        ("fanout", "ready"),
        ("views", "ready"),
    ]
    assert [row.message_rate for row in shown.services[2:]] == [0.0, 0.0]
    assert [row.behind for row in shown.services[2:]] == [None, 7]


def test_a_topic_that_is_empty_or_loads() -> None:
    """It has no position yet."""
    shown = table(None, Looks(1.0, (query("q", 0, 0, bookmark="epoch", records=0, loading=True),)))
    assert (shown.topics[0].records, shown.topics[0].loading, shown.partitions) == (0, True, ())
    assert any("0 (loading)" in line for line in lines(shown, 80))


@pytest.mark.parametrize("sort", SORTS)
def test_the_order_of_topics(sort: str) -> None:
    """By name from a to z, by numbers from the largest; an unknown number counts as none."""
    few = {**ORDERS, "name": "a", "log": "a", "records": 1, "changes": 1, "bookmark": "epoch"}
    few |= {"lag": None, "lag_seconds": None, "lags": []}
    look = replace(NOW.services[0], topics=(few, *(NOW.services[0].topics or ())))
    shown = table(BEFORE, replace(NOW, services=(look, *NOW.services[1:])), sort)
    assert [row.topic for row in shown.topics] == (["a", "orders"] if sort == "topic" else ["orders", "a"])


def test_the_text_is_aligned_and_cut() -> None:
    """Numbers stand on the right of their column; no line is wider than the terminal."""
    text = lines(table(BEFORE, NOW), 200, "lag")
    assert text[0] == "sessions 4   messages/s 10   by lag"
    assert text[1] == "memory   indexes 4.0 MiB   histories 0.0 MiB   timelines 0.0 MiB"
    assert text[3:5] == [
        "TOPIC   RECORDS  LOG/S  CHANGES/S  LAG  LAG S  SUBSCRIPTIONS",
        "orders    1,000    100         15   22    2.2              6",
    ]
    assert "log [1]       199.2    3    2.2  m2" in text
    assert "q1       query service      11        50  ready" in text
    assert max(map(len, lines(table(BEFORE, NOW), 20))) == 20


# the command


def test_without_a_terminal_one_table_is_printed() -> None:
    """Also of a service that is not there; `--json` has the same."""
    asked = ["top", "--every", "0.1", "--url", "http://127.0.0.1:1"]
    done = CliRunner().invoke(main, asked)
    assert (done.exit_code, done.output.count("SERVICE")) == (0, 1)
    assert "nothing listens at http://127.0.0.1:1: is `sowline up` running?" in done.output


def read_until(terminal: int, wanted: str) -> str:
    """Read what is drawn until this is in it."""
    drawn = ""
    while wanted not in drawn:
        drawn += os.read(terminal, 65536).decode()
    return drawn


@pytest.mark.parametrize("ignored", [False, True])
@pytest.mark.parametrize("end", [b"q", b"\x03"])
def test_a_terminal_is_drawn_on_until_a_key_ends_it(end: bytes, ignored: bool) -> None:
    """`s` orders by the next column; `q` and Ctrl-C end it, and the terminal is as it was.

    Also where the process inherits that SIGINT is ignored.
    """
    terminal, side = pty.openpty()
    command = [sys.executable, "-m", "sowline", "top", "--url", "http://127.0.0.1:1"]
    process = subprocess.Popen(
        command,
        stdin=side,
        stdout=side,
        stderr=side,
        start_new_session=True,
        preexec_fn=partial(own, signal.SIG_IGN if ignored else signal.SIG_DFL),  # noqa: PLW1509 - only a process can ignore a signal
    )
    os.close(side)
    try:
        assert read_until(terminal, "by topic").startswith("\x1b[?1049h")
        os.write(terminal, b"s")
        read_until(terminal, "by records")
        os.write(terminal, end)
        assert read_until(terminal, "\x1b[?1049l").endswith("\x1b[?25h\x1b[?1049l")
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def own(interrupt: signal.Handlers) -> None:
    """Make the terminal the process's own, so that Ctrl-C reaches it, with this disposition of SIGINT."""
    signal.signal(signal.SIGINT, interrupt)
    os.close(os.open(os.ttyname(0), os.O_RDWR))
