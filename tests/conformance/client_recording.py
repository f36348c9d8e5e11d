"""Records the cases for clients: `python -m tests.conformance.client_recording`.

What the service sends comes from a real service, over a real Kafka. While it is recorded, each view is compared with
a query. What a view shows after each frame is then played by the Python client without a service (`Player`).
"""

import asyncio
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.brokers import kafka_broker
from tests.conformance.client_cases import DIRECTORY, Json, Player
from tests.conformance.client_scenarios import SCENARIOS
from tests.conformance.recording import RING, Recording
from tests.integration.served import Served, serve

# Cases that no service sends are recorded ones that were changed.


def entitlement(lines: list[Json]) -> list[Json]:
    """A record leaves because the user may not see it any more."""
    return [
        json.loads(json.dumps(line).replace('"reason": "match"', '"reason": "entitlement"')) for line in lines
    ]


def gap_in_a_group(lines: list[Json]) -> list[Json]:
    """A record of a group is missing."""
    return _changed(lines, "sow", lambda message: message["records"].pop())


def gap_before_a_delta(lines: list[Json]) -> list[Json]:
    """A delta is of a record that the view does not hold."""
    return _changed(lines, "publish", lambda message: message.update(sow_key="1", delta=True))


def record_outside_of_a_group(lines: list[Json]) -> list[Json]:
    """A group has no begin."""
    received = {"command": "ack", "ack_type": "received", "command_id": "1", "status": "success"}

    def leave_out(message: Json) -> None:
        message.clear()
        message.update(received)

    return _changed(lines, "group_begin", leave_out)


def unknown_message(lines: list[Json]) -> list[Json]:
    """A message is none of the protocol."""
    return _changed(lines, "publish", lambda message: message.update(command="replay"))


DERIVED = (entitlement, gap_in_a_group, gap_before_a_delta, record_outside_of_a_group, unknown_message)


def _changed(lines: list[Json], command: str, change: Callable[[Json], Any]) -> list[Json]:
    """Change the first message with a command. The case ends at the end of the group, or behind that message."""
    changed: list[Json] = []
    found = False
    for line in json.loads(json.dumps(lines)):
        messages = line.get("frame", [])
        messages = messages if isinstance(messages, list) else [messages]
        for message in messages:
            if message["command"] == command and not found:
                change(message)
                found = True
        changed.append(line)
        commands = [message["command"] for message in messages]
        if found and (command == "publish" or "group_end" in commands):
            return [*changed, {"error": None}]
    raise AssertionError(f"expected a message with the command {command}, got none")


async def played(lines: list[Json], about: str | None) -> list[Json]:
    """Return the lines with what the Python client reports after each frame."""
    player = Player()
    with patch("sowline.client.connection.connect", player.connect):
        return await player.play([{"about": about}, *lines[1:]])


def write(name: str, lines: list[Json]) -> None:
    """Write a case."""
    text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
    (DIRECTORY / f"{name}.jsonl").write_text(text, encoding="utf-8")


async def record_all(served: Served) -> None:
    """Record all cases."""
    recorded = {}
    for name, (scenario, _) in SCENARIOS.items():
        lines = await Recording(served, served[name]).record(scenario)
        recorded[name] = await played(lines, scenario.__doc__)
        for line, again in zip(lines, recorded[name], strict=True):
            assert {key: again[key] for key in line} == line, f"{name}: {again} was {line}"
        write(name, recorded[name])
    for derive in DERIVED:
        write(derive.__name__, await played(derive(recorded["records"]), derive.__doc__))


def main() -> None:
    """Record all cases with services of their own."""
    definitions = {name: definition for name, (_, definition) in SCENARIOS.items()}
    with (
        tempfile.TemporaryDirectory() as directory,
        kafka_broker() as kafka,
        serve(kafka, Path(directory), definitions, ring_changes_max=RING) as served,
    ):
        asyncio.run(record_all(served))


if __name__ == "__main__":
    main()
