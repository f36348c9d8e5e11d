"""The shared streams of a gateway: one for all equal subscriptions with the same rights."""

from collections.abc import Sequence

from sowline.serving.authorization.entitlements import Rights
from sowline.wire.request import Subscribe
from sowline_gateway.nodes.channel import NodeChannels
from sowline_gateway.nodes.node_set import NodeSet
from sowline_gateway.streams.member import HeldBytes
from sowline_gateway.streams.stream import SharedStream, StreamName, deliver


class SharedStreams:
    """The streams that are followed now."""

    def __init__(self, nodes: NodeSet) -> None:
        self._nodes = nodes
        self._channels = NodeChannels(nodes.connections, deliver)
        self._held_bytes = HeldBytes()
        self._streams: dict[StreamName, SharedStream] = {}
        self.fell_behind = 0
        """Times that a subscription left its stream because its client was too slow."""

    def __len__(self) -> int:
        return len(self._streams)

    async def use(
        self, request: Subscribe, topics: Sequence[str], rights: Rights, *, relays: bool
    ) -> SharedStream:
        """Return the stream for a subscription, once it has begun; raise why it can't.

        Call `end_use` for each call.
        """
        name = StreamName.of(request, topics, rights, relays=relays)
        while True:
            stream = self._streams.get(name)
            if stream is None:
                stream = self._streams[name] = SharedStream(
                    name, request.topic, self._nodes, self._channels, rights, self._held_bytes, self._ended
                )
            else:
                # A new member must not inherit a node that lags far behind others.
                stream.leave_stuck_nodes()
            # Before the wait: another user that ends in the meantime must not end the stream.
            stream.users += 1
            try:
                await stream.wait_begun()
            except BaseException:
                self.end_use(stream)
                raise
            if not stream.is_over:
                return stream
            self.end_use(stream)

    def end_use(self, stream: SharedStream) -> None:
        """Note that a user of a stream has ended; the last one ends the stream."""
        stream.users -= 1
        if not stream.users:
            stream.end()

    def _ended(self, stream: SharedStream) -> None:
        if self._streams.get(stream.name) is stream:
            del self._streams[stream.name]

    async def close(self) -> None:
        """End all streams."""
        for stream in list(self._streams.values()):
            await stream.close()
        await self._channels.close()
