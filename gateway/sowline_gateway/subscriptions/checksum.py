"""The checksum of the records that a client holds, over all nodes.

Each node sends a checksum of its partitions' records, in order with its messages. From there on, the node's messages
wait until all checksums have arrived. So the client holds exactly the records that the checksums cover.
"""

import asyncio
from dataclasses import dataclass, field

from sowline.errors import SowlineError
from sowline.model.bookmark import PositionsByLog, format_bookmark, lay_over, parse_bookmark
from sowline_gateway.nodes.node_message import NodeMessage


@dataclass(slots=True)
class NodeChecksums:
    """A checksum that is complete once each of some nodes has sent its own."""

    command_id: str
    missing: int
    records: int = 0
    hash: int = 0
    positions: PositionsByLog = field(default_factory=dict)
    is_complete: asyncio.Event = field(default_factory=asyncio.Event)
    is_sent: asyncio.Event = field(default_factory=asyncio.Event)
    error: SowlineError | None = None

    async def add(self, message: NodeMessage) -> None:
        """Add the checksum of a node; return once the client was sent the complete one."""
        assert isinstance(message.records, int), "a checksum counts the records"
        assert self.missing > 0, "each node sends its checksum once"
        self.records += message.records
        self.hash ^= int(message.hash, 16)
        self.positions = lay_over(self.positions, parse_bookmark(message.bookmark))
        assert self.hash < 1 << 64, "a hash has 64 bits"
        self.missing -= 1
        if not self.missing:
            self.is_complete.set()
        await self.is_sent.wait()

    def fail(self, error: SowlineError) -> None:
        """Note that a node can't send its checksum."""
        self.error = error
        self.is_complete.set()
        # Also after an error: the messages of nodes that have sent their checksums wait for it in `add`.
        self.is_sent.set()

    async def wait(self) -> None:
        """Wait until all nodes have sent theirs; raise the error of one that can't."""
        await self.is_complete.wait()
        if self.error is not None:
            raise self.error

    @property
    def bookmark(self) -> str:
        """The bookmark at which the client holds the records."""
        return format_bookmark(self.positions)
