"""A client that knows no more of the wire than JSON and WebSockets."""

import itertools
import json
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests.described import checked_message
from tests.waiting import SECONDS_MAX

Json = dict[str, Any]


class Wire:
    """One raw connection: requests out, messages in, in their order."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._messages: deque[Json] = deque()
        self._ids = (f"c{number}" for number in itertools.count(1))

    def send(self, command: str, **fields: Any) -> str:
        """Send a command; returns its command_id, which is made up where none is given."""
        request = {"command": command, "command_id": next(self._ids), **fields}
        self.send_text(json.dumps(request))
        return str(request["command_id"])

    def send_text(self, text: str) -> None:
        """Send a frame as it is."""
        self._connection.send(text)

    def send_bytes(self, raw: bytes) -> None:
        """Send bytes that need not be a frame."""
        self._connection.socket.sendall(raw)

    def receive(self) -> Json:
        """Return the next message, which is as the protocol description has it."""
        while not self._messages:
            frame = json.loads(self._connection.recv(SECONDS_MAX))
            self._messages.extend(frame if isinstance(frame, list) else [frame])
        return checked_message(self._messages.popleft())

    def receive_until(self, last: Callable[[Json], bool]) -> list[Json]:
        """Return messages up to and with the first for which `last` holds."""
        found = [self.receive()]
        while not last(found[-1]):
            found.append(self.receive())
        return found

    def heartbeat(self) -> list[Json]:
        """Return all that comes before the answer to a heartbeat: what was sent before it has been looked at."""
        id = self.send("heartbeat")
        return self.receive_until(lambda m: m["command"] == "heartbeat" and m["command_id"] == id)[:-1]

    def fail(self, command: str, **fields: Any) -> Json:
        """Send a command that must fail; returns the failure."""
        id = self.send(command, **fields)
        answer = self.receive()
        assert (answer["command"], answer["command_id"]) == ("ack", id)
        assert answer["status"] == "failure"
        return answer

    def group(self) -> list[Json]:
        """Return the messages of the group that comes next."""
        messages = self.receive_until(lambda message: message["command"] in ("group_end", "ack"))
        assert [messages[0]["command"], messages[-1]["command"]] == ["group_begin", "group_end"]
        return messages


def laid_over(messages: Iterable[Json]) -> str:
    """Return the bookmark that a client has after these messages: each laid over those before it."""
    locations: dict[str, dict[str, str]] = {}
    for message in messages:
        for part in message["bookmark"].split(";"):
            log, _, positions = part.rpartition(":")
            locations.setdefault(log, {}).update(one.split("@") for one in positions.split(","))
    return ";".join(
        f"{log}:" + ",".join(f"{number}@{at}" for number, at in positions.items())
        for log, positions in locations.items()
    )


@contextmanager
def wire(url: str, receive_bytes: int | None = None) -> Iterator[Wire]:
    """Lend a connection; with `receive_bytes`, one of little room that takes frames only when it is asked to."""
    address = url.replace("http", "ws", 1) + "/v1"
    options: Json = {"max_size": None, "ping_interval": None, "compression": None}
    if receive_bytes is not None:
        host, port = url.removeprefix("http://").split(":")
        options |= {"sock": _small_socket(host, int(port), receive_bytes), "max_queue": 1}
    with connect(address, **options) as connection:
        yield Wire(connection)


def _small_socket(host: str, port: int, receive_bytes: int) -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    made.connect((host, port))
    return made
