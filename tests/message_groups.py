"""What a connection's messages must look like: groups that nothing else comes between."""

from typing import Any

Json = dict[str, Any]


def groups_are_whole(messages: list[Json]) -> list[str]:
    """Check that nothing but acknowledgements and heartbeats comes within a group; return whose groups came."""
    whose: list[str] = []
    group = ""
    for message in messages:
        command = message["command"]
        if command == "ack" and message.get("reason") and message["command_id"] == group:
            group = ""
        elif command == "group_begin":
            assert not group
            group = message["query_id"]
            whose.append(group)
        elif command in ("sow", "timeline", "group_end"):
            assert message["query_id"] == group
            group = "" if command == "group_end" else group
        else:
            assert not group or command in ("ack", "heartbeat"), message
    return whose
