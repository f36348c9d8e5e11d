"""The `sowline` command through a shell, and `sowline up`, which leaves nothing behind."""

import fcntl
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from select import PIPE_BUF, select
from typing import Any

import pytest

from sowline.client.client import Client
from sowline.model.key import sow_key
from sowline.runtime.ports import free_port
from tests.integration.command_line import FORKS, SOWLINE, Shell, Up, alive, on_terminal, wait_for_sow
from tests.integration.services import ROOT, http_status
from tests.waiting import SECONDS_MAX, wait_for

WRITERS = 11
"""Tests that have a topic of their own."""


@pytest.fixture(scope="module")
def up(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """`sowline up` over the tests' Kafka, with a topic for tests that need no records, and others."""
    topic, *others = (f"t{uuid.uuid4().hex[:12]}-cli" for _ in range(1 + WRITERS))
    defined = [f"{{name: {name}, key: /id, partitions: 2}}" for name in (topic, *others)]
    topics = (
        f"topics: [{', '.join(defined)}]\nfanouts: [{{name: {topic}, topic: {topic}, filter: '/id > 0'}}]\n"
    )
    made = Up(tmp_path_factory.mktemp("up"), topic, "--kafka", kafka, topics=topics)
    made.unwritten = others
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def addresses(up: Up) -> dict[str, Any]:
    """What it said when it was ready."""
    return up.wait_ready()


@pytest.fixture
def shell(addresses: dict[str, Any], up: Up) -> Shell:
    """A shell that knows the service, and an empty topic of the test's own."""
    return Shell(addresses["url"], up.unwritten.pop())


@pytest.fixture
def reader(addresses: dict[str, Any], up: Up) -> Shell:
    """A shell for a test that needs no records: it shares an empty topic with others."""
    return Shell(addresses["url"], up.topic)


def test_up_says_where_it_is(addresses: dict[str, Any], up: Up, kafka: str) -> None:
    """One line of JSON says where Kafka and the query service are, once that is ready."""
    assert addresses.keys() == {"kafka", "url", "console", "pid", "materializer", "views", "fanout"}
    assert (addresses["kafka"], addresses["pid"]) == (kafka, up.process.pid)
    assert http_status(addresses["console"]) == 200
    assert (
        http_status(f"{addresses['url']}/readyz") == http_status(f"{addresses['materializer']}/readyz") == 200
    )


def test_pipes(shell: Shell) -> None:
    """Records go in and come out as lines of JSON, by every command."""
    records = [{"id": n, "qty": n * 10} for n in range(1, 6)]
    assert shell.lines('seq 1 5 | sed \'s/.*/{"id":&,"qty":&0}/\' | sowline publish $TOPIC') == []
    wait_for_sow(shell, records)
    wait_for_sow(shell, records[3:], "-f '/qty >= 40' | grep 0")
    shell.lines("""sowline delta-publish $TOPIC '{"id":1,"text":"é"}' '{"id":2,"qty":0}'""")
    wait_for_sow(shell, [{"id": 1, "qty": 10, "text": "é"}, {"id": 2, "qty": 0}, *records[2:]])
    changes = shell.lines("sowline subscribe $TOPIC -b epoch -f '/id = 1' -n 2")
    assert changes == [{"id": 1, "qty": 10}, {"id": 1, "qty": 10, "text": "é"}]
    full = shell.lines("sowline sow-and-subscribe $TOPIC --full -f '/id = 1' -n 3")
    assert [message["command"] for message in full] == ["group_begin", "sow", "group_end"]
    assert shell.lines("sowline delete $TOPIC -f '/qty >= 40'") == [{"deleted": 2}]
    wait_for_sow(shell, [{"id": 1, "qty": 10, "text": "é"}, {"id": 2, "qty": 0}, records[2]])
    shell.lines(f"sowline delete $TOPIC --key {full[1]['sow_key']}")
    shell.lines("""sowline delete $TOPIC -d '{"id":2}'""")
    wait_for_sow(shell, records[2:3])
    (topic,) = (one for one in shell.lines("sowline topics") if one["name"] == shell.topic)
    assert (topic["records"], topic["key"]) == (1, ["/id"])
    shell.lines("sowline delete $TOPIC -f 1=1")
    wait_for_sow(shell, [])


def test_subscriber_sees_what_is_published(shell: Shell) -> None:
    """A subscription prints each change as it happens, and Ctrl-C ends it without a word."""
    subscriber = shell.start("sowline sow-and-subscribe $TOPIC -o oof --full -f '/live = true'")
    assert subscriber.stdout is not None
    try:
        assert subscriber.stdout.readline()
        assert subscriber.stdout.readline()
        shell.lines("""echo '{"id":100,"live":true}' | sowline publish $TOPIC""")
        assert json.loads(subscriber.stdout.readline())["command"] == "publish"
        shell.lines("""sowline delete $TOPIC -d '{"id":100}'""")
        assert json.loads(subscriber.stdout.readline())["command"] == "oof"
        subscriber.send_signal(signal.SIGINT)
        assert subscriber.communicate(timeout=SECONDS_MAX) == ("", "")
    finally:
        subscriber.kill()
        subscriber.communicate()


def test_interrupted_at_any_moment(reader: Shell) -> None:
    """Ctrl-C ends a subscriber whenever it comes; once it has begun to print, without a word and with exit code 0."""
    moments = [f"0+{n / 100}" for n in range(15)] + [f"{1 + n % 2}+{n / 10_000}" for n in range(15)]
    done = reader.run(f"exec {sys.executable} -c {shlex.quote(FORKS)} {' '.join(moments)}")
    ended = [line.split() for line in done.stdout.splitlines()]
    assert ([moment for moment, _ in ended], done.stderr) == (moments, "")
    assert {code for moment, code in ended if not moment.startswith("0")} == {"0"}


@pytest.mark.parametrize("before", ["", "trap '' INT; "])
@pytest.mark.parametrize("command", ["topics", "sow any", "subscribe any"])
def test_interrupted_while_connecting(command: str, before: str) -> None:
    """Ctrl-C ends a command without a word also where no service has answered yet.

    Also where the command inherits that SIGINT is ignored, as a background command of a shell script does.
    """
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(SECONDS_MAX)
        shell = Shell(f"http://127.0.0.1:{silent.getsockname()[1]}", "any")
        reader = shell.start(f'sh -c "{before}exec sowline {command}"')
        try:
            connection, _ = silent.accept()
            with connection:
                assert connection.recv(1)
                reader.send_signal(signal.SIGINT)
                assert reader.communicate(timeout=SECONDS_MAX) == ("", "")
            assert reader.returncode == 0
        finally:
            reader.kill()
            reader.communicate()


def test_interrupted_while_the_pipe_is_full(shell: Shell) -> None:
    """Ctrl-C ends a subscriber also where nobody takes what it prints."""
    shell.lines("seq 1 3000 | sed 's/.*/{\"id\":&}/' | sowline publish $TOPIC")
    subscriber = shell.start("sowline subscribe $TOPIC -b epoch --full")
    try:
        assert subscriber.stdout is not None
        pipe = subscriber.stdout.fileno()
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BUF)
        wait_for(lambda: select([pipe], [], [], 0)[0], "the pipe to be full")
        subscriber.send_signal(signal.SIGINT)
        assert subscriber.wait(SECONDS_MAX) == 0
    finally:
        subscriber.kill()
        subscriber.communicate()


def test_reader_that_leaves(shell: Shell) -> None:
    """A pipe whose reader has had enough ends the command without a word."""
    shell.lines("seq 1 3000 | sed 's/.*/{\"id\":&}/' | sowline publish $TOPIC")
    assert shell.lines("sowline subscribe $TOPIC -b epoch -f '/id > 5' | head -n 2")


def test_topics_on_a_terminal(reader: Shell, addresses: dict[str, Any], up: Up) -> None:
    """A table there; a line of JSON each in a pipe."""
    head, *rows = on_terminal("topics", "--url", addresses["url"])
    assert head.split()[:4] == ["TOPIC", "STATE", "RECORDS", "LAG"]
    assert up.topic in [row.split()[0] for row in rows]
    assert up.topic in [topic["name"] for topic in reader.lines("sowline topics")]


def test_records_on_a_terminal(shell: Shell) -> None:
    """A table of records; a subscription marks what is new, what has changed, and what has left."""
    first = ({"id": 41, "state": "open", "legs": {"a": 1}}, {"id": 42, "state": "open"})
    more = ({"id": 41, "state": "open"}, {"id": 42, "state": "done"}, {"id": 43, "state": "open"})

    def publish(*records: Any) -> None:
        bodies = " ".join(shlex.quote(json.dumps(one, separators=(",", ":"))) for one in records)
        shell.lines(f"sowline publish $TOPIC --wait {bodies}")

    publish(*first)
    asked = (shell.topic, "--url", shell.url, "--filter", "/state = 'open'")
    assert on_terminal("sow", *asked, "--order-by", "/id") == [
        "ID  STATE  LEGS",
        '41  open   {"a":1}',
        "42  open   -",
    ]
    live = ("sow-and-subscribe", *asked, "-o", "oof", "--order-by", "/id")
    seen = on_terminal(*live, lines=5, meanwhile=lambda: publish(*more))
    assert [line[0] for line in seen[:2]] == ["+", "+"]
    assert sorted(seen[2:5]) == [
        '+ {"id":43,"state":"open"}',
        '- {"id":42,"state":"done"}  (match)',
        '~ {"id":41,"state":"open"}',
    ]
    filter = shlex.quote("/state = 'open' AND /id = 42")
    (left,) = shell.lines(f"sowline subscribe $TOPIC -b epoch -o oof -f {filter} -n 2 | tail -n 1")
    assert (left["command"], left["reason"], left["data"]["id"]) == ("oof", "match", 42)


def test_commands_find_the_running_system(shell: Shell, addresses: dict[str, Any], up: Up) -> None:
    """Without an address, commands use the one `sowline up` that runs, and those that operate report which one."""
    shell.lines("""sowline publish $TOPIC --wait '{"id":51}'""")
    alone = {name: value for name, value in shell.environment.items() if name != "SOWLINE_URL"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(SOWLINE), *arguments],
            env=alone,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
        )

    sow = run("sow", shell.topic, "-f", "/id = 51")
    assert json.loads(sow.stdout) == {"id": 51}
    # This one runs in another directory, which a pipe must not hide.
    which = f"sowline: using {addresses['url']} of `sowline up` (pid {up.process.pid}, "
    assert sow.stderr == f"{which}{up.log.parent / 'topics.yaml'}), which runs in another directory\n"
    for command in (
        ("dump", shell.topic, "--from", "changes"),
        ("verify", shell.topic),
        ("top", "--once", "--every", "0.1"),
        ("doctor",),
    ):
        ended = run(*command)
        assert which in ended.stderr, (command, ended)
        assert shell.topic in ended.stdout or command[0] == "doctor"
    assert which not in run("dump", shell.topic, "--config", "/nowhere.yaml").stderr


def test_ways_to_ask(shell: Shell) -> None:
    """Order, limits, keys, fields, patterns, groups and the access path of a query, as options of a command line."""
    records = [{"id": n, "g": "ab"[n % 2], "n": 10 - n} for n in range(6)]
    shell.lines(f"sowline publish $TOPIC {' '.join(shlex.quote(json.dumps(one)) for one in records)}")
    wait_for_sow(shell, records)
    page = "--order-by '/g DESC, /n' --top-n 3 --skip-n 1"
    assert [one["id"] for one in shell.lines(f"sowline sow $TOPIC {page}")] == [3, 1, 4]
    key = sow_key(f"{shell.topic}\0".encode(), "3").decode()
    assert shell.lines(f"sowline sow ^{shell.topic[:-1]}. --key {key} --key 1 -o 'select=[-/,+/n]'") == [
        {"n": 7}
    ]
    groups = shlex.quote("grouping=[/g],projection=[/g,SUM(/n) AS /sum]")
    sums = [{"g": "a", "sum": 24}, {"g": "b", "sum": 21}]
    live = "sowline sow-and-subscribe $TOPIC"
    assert sorted(shell.lines(f"{live} -o {groups} -n 2"), key=lambda one: str(one["g"])) == sums
    (explanation,) = shell.lines("sowline explain $TOPIC -f \"/id IN ('3', '9')\"")
    assert [
        explanation["access_paths"][0][name] for name in ("access_path", "index", "candidates", "matches")
    ] == [
        "key",
        "/id",
        1,
        1,
    ]
    subscriber = shell.start(f"{live} -o oof --order-by /n --top-n 2 --skip-n 1 --full")
    assert subscriber.stdout is not None
    try:
        first = [json.loads(subscriber.stdout.readline()) for _ in range(4)]
        assert [message.get("data", {}).get("id") for message in first] == [None, 4, 3, None]
        shell.lines("""sowline delete $TOPIC -d '{"id":5}'""")
        seen = [json.loads(subscriber.stdout.readline()) for _ in range(2)]
        assert [(message["command"], message["data"]["id"]) for message in seen] == [
            ("oof", 4),
            ("publish", 2),
        ]
    finally:
        subscriber.kill()
        subscriber.communicate()


def test_bench(shell: Shell) -> None:
    """It measures what it publishes, deletes that, and leaves other records as they are."""
    bench = "sowline bench $TOPIC --seconds 0.1 --records 50"
    rows = shell.lines(f"{bench} --rate 0")
    assert [row["measured"] for row in rows] == ["publish", "visible", "look-up", "filter"]
    assert (rows[0]["count"] == rows[1]["count"] > 0, rows[0]["per_second"] > 0) == (True, True)
    assert [row["count"] for row in rows[2:]] == [min(50, rows[0]["count"]), 100]
    for row in rows[1:]:
        assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["max_ms"]
    shell.lines("""sowline publish $TOPIC '{"id":"bench-"}' --wait""")
    refused = shell.run(bench)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "give --into-records" in refused.stderr
    assert len(shell.lines(f"{bench} --rate 100 --into-records")) == 4
    wait_for_sow(shell, [{"id": "bench-"}])


def test_types(shell: Shell) -> None:
    """An interface that all records have; a limit of one sees one record only."""
    shell.lines("""sowline publish $TOPIC '{"id": 1, "legs": [{"qty": 5}]}' '{"id": 2, "legs": null}'""")
    wait_for_sow(shell, [{"id": 1, "legs": [{"qty": 5}]}, {"id": 2, "legs": None}])
    done = shell.run("sowline types $TOPIC --name Order")
    assert (done.returncode, done.stderr) == (0, "")
    head, _, body = done.stdout.partition("\n\n")
    assert " 2 records of the topic " in head
    assert body == (
        "export interface Order {\n  id: number;\n  legs: {\n    qty: number;\n  }[] | null;\n}\n"
    )
    one = shell.run("sowline types $TOPIC --limit 1").stdout
    assert " 1 record of the topic " in one
    assert " | " not in one
    shell.lines("sowline delete $TOPIC -f 1=1")
    wait_for_sow(shell, [])
    done = shell.run("sowline types $TOPIC")
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch("not supported: expected records in .*, got none: publish some first\n", done.stderr)


@pytest.mark.parametrize("command", ["topics", "sow any", "publish any {}", "types any", "bench any"])
def test_without_a_service(command: str) -> None:
    """A refused connection on this machine is reported at once: no word for half a minute would look like work."""
    url = f"http://127.0.0.1:{free_port()}"
    done = Shell(url, "any").run(f"sowline {command}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"not connected: nothing listens at {url}: is `sowline up` running?\n"


def test_integers_of_any_size_arrive_as_they_are(shell: Shell) -> None:
    """In pipes, on a terminal, and in Python's client, which can publish them, too."""
    long, record = 123456789012345678903, '{"id":61,"n":123456789012345678903}'
    shell.lines(f"sowline publish $TOPIC --wait '{record}'")
    asked = ("sow", shell.topic, "--url", shell.url, "--filter", "/id = 61")
    assert on_terminal(*asked) == ["ID                      N", f"61  {long}"]
    assert shell.run("sowline sow $TOPIC -f '/id = 61'").stdout == f"{record}\n"
    with Client(shell.url) as client:
        (key,) = [
            message.sow_key for message in client.sow(shell.topic, filter="/id = 61") if message.sow_key
        ]
        assert client.record(shell.topic, "61")["n"] == client.record(shell.topic, 61)["n"] == long
        with client.local_view(shell.topic, filter="/id = 61") as view:
            assert view[key] == {"id": 61, "n": long}
        client.publish(shell.topic, {"id": 61, "n": -long}, wait=True)
        assert [
            message.data["n"] for message in client.sow(shell.topic, sow_keys=[key]) if message.sow_key
        ] == [-long]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("sowline sow nothing", "invalid topic: expected a topic .*'nothing'"),
        ("sowline sow $TOPIC -f '/a ='", "bad filter: expected an operand"),
        ("sowline sow $TOPIC --skip-n 1", "invalid skip_n: expected a top_n"),
        ("sowline sow $TOPIC --order-by qty", "invalid order by: expected a path"),
        ("sowline explain $TOPIC -f '/a ='", "bad filter: expected an operand"),
        ("sowline types nothing", "invalid topic: expected a topic .*'nothing'"),
        ("sowline types $TOPIC --name order", "bad request: expected a --name such as Order"),
        ("sowline subscribe $TOPIC -o fast", "invalid options: expected any of"),
        ("sowline subscribe $TOPIC -b yesterday", "invalid bookmark: expected a bookmark"),
        ("sowline publish $TOPIC '{'", "not json: record 1: expected a JSON object"),
        ("""printf '{"id":1}\\n[]\\n' | sowline publish $TOPIC""", "not an object: record 2: expected"),
        ("""sowline publish $TOPIC '{"qty":1}'""", "key missing: record 1: expected the key field /id"),
        ("sowline delete $TOPIC", "bad request: expected exactly one"),
        ("sowline topics -u nowhere", "bad request: expected a URL"),
        (
            "sowline up --config /dev/null --data-dir /dev/null/x",
            "/dev/null, line 1: topics: expected this field, got nothing",
        ),
    ],
)
def test_errors(reader: Shell, line: str, sentence: str) -> None:
    """What can't be done is one sentence on standard error, and exit code 1."""
    done = reader.run(line)
    assert done.returncode == 1
    assert re.fullmatch(sentence + "[^\n]*\n", done.stderr)
    assert done.stdout == ""


def test_services_that_end_are_started_again(shell: Shell, up: Up) -> None:
    """A service that is killed comes back, and nothing is lost."""
    before = up.wait_for_services()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    # Nobody else can get a port meanwhile: it would be taken for the service's.
    port = int(shell.url.rpartition(":")[2])
    with pytest.raises(OSError, match="Address already in use"), socket.create_server(("127.0.0.1", port)):
        pass
    shell.lines("""sowline publish $TOPIC '{"id":7}'""")
    wait_for_sow(shell, [{"id": 7}], "-f '/id = 7'")
    assert not before & up.wait_for_services()


def test_a_second_up_in_the_same_directory(reader: Shell, up: Up) -> None:
    """It says which one runs, and leaves that alone."""
    below = up.wait_for_services()
    line = f"cd {up.log.parent} && sowline up --config topics.yaml --data-dir state --port auto"
    done = reader.run(line)
    which = f"pid {up.process.pid}, {reader.url}"
    assert done.returncode == 1
    assert done.stderr == f"already running: {which}; it uses {up.log.parent / 'state'}\n"
    assert up.descendants() == below


def test_an_up_whose_port_is_taken(reader: Shell, tmp_path: Path) -> None:
    """Somebody who has one system already learns the option that takes any free port."""
    (tmp_path / "topics.yaml").write_text("topics: [{name: orders, key: /id}]")
    port = reader.url.rpartition(":")[2]
    done = reader.run(f"cd {tmp_path} && sowline up --port {port}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"no port: expected a free port at 127.0.0.1:{port}, got: Address already in use; stop the program that"
        " uses it, or give another; --port auto takes the next free one\n"
    )


@pytest.mark.long
def test_local_broker(tmp_path: Path) -> None:
    """Without a Kafka it starts its own. However it ends, no process stays.

    Killed, it can start again at once, and goes on from its state. Ctrl-C stops everything in order.
    """
    up = Up(tmp_path, "orders")
    try:
        addresses = up.wait_ready()
        Shell(addresses["url"], up.topic).lines("""sowline publish $TOPIC '{"id":1}'""")
        below = up.descendants()
        up.process.kill()
        up.wait()
        up = Up(tmp_path, "orders")
        addresses = up.wait_ready()
        wait_for(lambda: not alive(below), "the processes of the first to end")
        shell = Shell(addresses["url"], up.topic)
        wait_for_sow(shell, [{"id": 1}])
        below = up.descendants()
        assert len(below) == 6, "four services, the broker's keeper, and the broker"
        started = time.monotonic()
        os.killpg(up.process.pid, signal.SIGINT)
        assert up.wait() == 0
        assert time.monotonic() - started < SECONDS_MAX
        assert not alive(below)
        assert "Traceback" not in up.log.read_text()
    finally:
        up.close()
