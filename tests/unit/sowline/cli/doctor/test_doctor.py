"""The command `sowline doctor`: what it prints where nobody answers, and of files and settings that are wrong."""

import socket
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from sowline.cli import main
from sowline.cli.doctor import kafka as doctor_kafka

run = CliRunner().invoke


def codes(output: str) -> dict[str, dict[str, str]]:
    """Return the findings that the command has printed as JSON, by code."""
    return {line["code"]: line for line in map(orjson.loads, output.splitlines())}


def test_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Kafka and a service that take connections and say nothing are findings, not something to wait for."""
    monkeypatch.setattr(doctor_kafka, "ANSWER_SECONDS_MAX", 0.2)
    monkeypatch.setattr("sowline.cli.http.ANSWER_SECONDS_MAX", 0.2)
    (tmp_path / "topics.yaml").write_text("topics: [{name: orders, key: /id}]")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        partition = f"127.0.0.1:{silent.getsockname()[1]}"
        where = ["--config", str(tmp_path / "topics.yaml"), "--kafka", partition, "--data-dir", str(tmp_path)]
        done = run(main, ["doctor", *where, "--url", f"http://{partition}", "--json"])
        result = run(main, ["doctor", *where])
    assert done.exit_code == 1, done.output
    found = codes(done.output)
    assert [found[code]["severity"] for code in ("topics", "kafka_away", "service_away")] == [
        "ok",
        "error",
        "error",
    ]
    assert result.exit_code == 1
    assert f"error   kafka_away: {partition}: expected a Kafka that answers, found " in result.output
    assert "        start it, or give its address with --kafka" in result.output
    assert result.output.endswith("1 error, 0 warnings, 0 notes\n")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("", "Connect to ipv4#127.0.0.1:1 failed: Connection refused"),
        ("no.such=1", "No such configuration property"),
    ],
)
def test_why_kafka_is_away(options: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the client was told when it tried to connect, or what is wrong with its options."""
    monkeypatch.setattr(doctor_kafka, "ANSWER_SECONDS_MAX", 1.0)
    monkeypatch.setenv("SOWLINE_KAFKA_OPTIONS", options)
    (tmp_path / "topics.yaml").write_text("topics: [{name: orders, key: /id}]")
    done = run(
        main, ["doctor", "--config", str(tmp_path / "topics.yaml"), "--kafka", "127.0.0.1:1", "--json"]
    )
    assert why in codes(done.output)["kafka_away"]["found"]


def test_files_and_settings_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thing that is wrong in topics.yaml is a finding with its line; so is a file that is not there."""
    (tmp_path / "topics.yaml").write_text(
        "topics:\n- {name: orders}\n- {name: trades, key: /id, color: red}\n"
    )
    done = run(main, ["doctor", "--config", str(tmp_path / "topics.yaml"), "--json"])
    lines = [orjson.loads(line) for line in done.output.splitlines()]
    assert (done.exit_code, [line["code"] for line in lines]) == (1, ["topics_file"] * 2)
    assert [line["where"].rpartition(", ")[2] for line in lines] == [
        "line 2: topics.0.key (orders)",
        "line 3: topics.1.color (trades)",
    ]
    done = run(main, ["doctor", "--config", str(tmp_path / "none.yaml"), "--json"])
    assert "--config" in codes(done.output)["topics_file"]["advice"]
    (tmp_path / "topics.yaml").write_text("topics: [{name: orders, key: /id}]")
    (tmp_path / "access.yaml").write_text("roles: {desk: {reads: []}}")
    where = ["--config", str(tmp_path / "topics.yaml"), "--kafka", "127.0.0.1:1"]
    done = run(main, ["doctor", *where, "--access", str(tmp_path / "access.yaml"), "--json"])
    assert "line 1: roles.desk.reads" in codes(done.output)["access_file"]["found"]
    monkeypatch.setenv("SOWLINE_PORT", "many")
    done = run(main, ["doctor", "--json"])
    assert "no `sowline up` runs here" in done.stderr
    assert (done.exit_code, codes(done.stdout)["settings"]["where"]) == (1, "SOWLINE_PORT")
