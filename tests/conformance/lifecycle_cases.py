"""Sequences of events of one subscription, with what a client machine makes of each. Any client can be held to them.

Each file of `tests/conformance/lifecycle/` is one sequence. Its first line has what it is about, and the request. A
further line is an event with the actions that it leads to, and with the state, what the subscriber holds and the
bookmark after it, if there is one:

| event | meaning |
|---|---|
| `"lost"`, `"completed"`, `"pause"`, … | an event that says no more than its name |
| `{"type": "accepted", …}` | an event with fields |
| `{"type": "arrived", "command": …, "messages": […]}` | messages: of each only what the lifecycle depends on |

| action | meaning |
|---|---|
| `{"begin": {…}}`, `{"replace_by": 1, "request": {…}}` | the request is sent, with the fields that are not empty |
| `{"send": "pause"}`, `{"ask_later": 0}`, `"started"` | as `sowline.subscriptions.lifecycle` describes them |
| `{"settled": null}`, `{"over": null}` | a replacement was accepted, the end; or the reason of a failure |
| `{"give": […]}` | messages for the subscriber |
| `{"raises": …}` | the event is a command that is not legal: the reason |

`table.json` has what becomes of each event in each state, the events that lead there, and one event for each row.
`python -m tests.conformance.lifecycle_cases` writes the actions and states again, as the Python machine has them.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from sowline.errors import SowlineError
from sowline.subscriptions.ask import Ask
from sowline.subscriptions.client_machine import ClientMachine
from sowline.subscriptions.lifecycle import (
    Action,
    AskLater,
    Event,
    Give,
    Over,
    ReplaceBy,
    Send,
    SendAsk,
    Settled,
)
from sowline.wire.client_message import Message

DIRECTORY = Path(__file__).parent / "lifecycle"
TABLE = DIRECTORY / "table.json"

Json = dict[str, Any]


def files() -> list[Path]:
    """Return the files of all sequences."""
    return sorted(DIRECTORY.glob("*.jsonl"))


def read(file: Path) -> list[Json]:
    """Return the lines of a sequence."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def read_event(line: Any) -> Event:
    """Return the event that a line describes."""
    event: Event = msgspec.convert(line, Event)
    return event


def play(lines: list[Json]) -> Iterator[Json]:
    """Yield the lines as the Python machine has them."""
    head, *steps = lines
    yield head
    machine = ClientMachine(Ask(**head["ask"]))
    for step in steps:
        actions = handled(machine, read_event(step["event"]))
        after = {"state": machine.state.value, "holds": machine.taken.holding.value}
        at = {} if machine.bookmark is None else {"bookmark": machine.bookmark}
        yield {"event": step["event"], "actions": actions, **after, **at}


def handled(machine: ClientMachine, event: Event) -> list[Any]:
    """Let a machine take an event, and return what it does as lines have it."""
    try:
        return [_action(action) for action in machine.handle(event)]
    except SowlineError as error:
        return [{"raises": error.reason}]


def _action(action: Action) -> Any:
    match action:
        case SendAsk(ask=ask):
            return {"begin": _request(ask)}
        case ReplaceBy(number=number, ask=ask):
            return {"replace_by": number, "request": _request(ask)}
        case Send(what=what):
            return {"send": what}
        case AskLater(number=number):
            return {"ask_later": number}
        case Settled(error=error):
            return {"settled": error and error.reason}
        case Over(error=error):
            return {"over": error and error.reason}
        case Give(messages=messages):
            return {"give": [_message(message) for message in messages]}
    return "started"


def _request(ask: Ask) -> Json:
    left_out = ("command_id", "topic", "batch_size", "ack_type")
    return {name: value for name, value in ask.request("1").items() if name not in left_out}


def _message(message: Message) -> Json:
    fields = {"command": message.command, "bookmark": message.bookmark, "reset": message.reset}
    return {name: value for name, value in fields.items() if value}


if __name__ == "__main__":
    for path in files():
        played = "".join(json.dumps(line) + "\n" for line in play(read(path)))
        path.write_text(played, encoding="utf-8")
