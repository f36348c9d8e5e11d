"""A gateway of now asks nodes of the version before for what they know. `make test-all` runs this.

`make test-all` also runs the tests over shards with nodes of that version (`NODES=previous`).
"""

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest

from sowline.wire.options import Options, parse_options
from tests.unit.sowline.wire import answered_requests
from tests.unit.sowline.wire.answered_requests import answers_to
from tests.unit.sowline.wire.recorded_requests import recorded
from tests.upgrades.earlier import VERSION, earlier_tree

pytestmark = pytest.mark.timeout(420)


@pytest.fixture(scope="module")
def sent() -> list[bytes]:
    """What a gateway sends to a node while it answers the recorded requests of its clients."""
    frames: list[bytes] = []
    send = answered_requests.NodeSocket.send

    async def noted(self: answered_requests.NodeSocket, frame: bytes, *, text: bool) -> None:
        frames.append(frame)
        await send(self, frame, text=text)

    asked = [one for one in recorded() if one.api in ("gateway", "gateway http")]
    with patch.object(answered_requests.NodeSocket, "send", noted):
        for _ in answers_to(asked):
            pass
    return sorted(set(frames))


def test_nodes_of_the_version_before_understand_every_request(sent: list[bytes]) -> None:
    """None has a field, an option or a value that they refuse, and each means there what it means here."""
    program = Path(__file__).with_name("understood.py")
    ran = subprocess.run(
        [sys.executable, "-P", program],
        input=b"\n".join(sent),
        env={"PYTHONPATH": str(earlier_tree())},
        capture_output=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr.decode()) == (0, ""), VERSION
    found = [msgspec.json.decode(line, type=list[str]) for line in ran.stdout.splitlines()]
    assert len(found) == len(sent) > 100
    for frame, (command, _, options, *_) in zip(sent, found, strict=True):
        request = msgspec.json.decode(frame)
        assert command == request["command"]
        known = msgspec.json.decode(options, type=dict[str, str])
        meant = {
            name: repr(value) for name, value in asdict(parse_options(request.get("options", ""))).items()
        }
        # An option that is newer than that version must not have been sent to it.
        assert {name: meant.get(name) for name in known} == known, frame
        assert all(meant[name] == repr(getattr(Options(), name)) for name in meant.keys() - known), frame
