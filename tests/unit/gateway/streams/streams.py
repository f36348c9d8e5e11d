"""What clients of shared streams hold and the nodes follow."""

from typing import Any, cast

from sowline.model.bookmark import format_position, parse_bookmark
from sowline.model.position import Position
from tests.unit.gateway.rig import Rig
from tests.unit.gateway.subscriber import Subscriber, matching


def followed(made: Rig) -> int:
    """Return how many subscriptions the nodes have now."""
    return sum(node.server.dispatcher.live for node in made.nodes)


def is_shared(mine: Subscriber) -> bool:
    """Return whether a client's subscription is a member of a stream now."""
    entries = cast("Any", mine.client.session.commands)._subscriptions._entries
    assert "mine" in entries, mine.messages
    member = entries["mine"].subscription._membership._member
    return member is not None and member.is_released


async def settled(made: Rig, mine: Subscriber, test: Any = lambda record: True) -> None:
    """Wait until a client holds what it should."""
    await mine.until(lambda: mine.held == matching(made, test))


def has_all(made: Rig, mine: Subscriber) -> bool:
    """Return whether a client was sent each change since its subscription began, once."""
    return any("bookmark" in one for one in mine.messages) and heard(mine) == due(made, mine)


def heard(mine: Subscriber) -> list[str]:
    """Return the bookmarks of a client's live messages."""
    return sorted(one["bookmark"] for one in mine.messages if one["command"] in ("publish", "oof"))


def due(made: Rig, mine: Subscriber) -> list[str]:
    """Return the bookmarks of the changes after the position at which a subscription began."""
    begun = next(one["bookmark"] for one in mine.messages if one.get("ack_type") and "bookmark" in one)
    of_each = parse_bookmark(begun)["orders"]
    return sorted(
        format_position("orders", number, Position(0, offset))
        for number, last in enumerate(made.whole.last)
        for offset in range(of_each[number].offset + 1, last.offset + 1)
    )
