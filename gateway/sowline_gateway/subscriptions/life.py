"""The life of a subscription at a gateway: does what its machine says about acknowledgements and the gate."""

from sowline.model.bookmark import PositionsByLog, format_bookmark
from sowline.serving.flag import Flag
from sowline.serving.outbox.group import acknowledge_completed, acknowledge_counts, acknowledge_processed
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.result import Result
from sowline.serving.sessions.status import SubscriptionStatus
from sowline.subscriptions.service_lifecycle import (
    Acknowledge,
    Duty,
    Event,
    GoOn,
    Halt,
    LifeTerms,
    Opening,
    ServiceSignal,
    ServiceState,
)
from sowline.subscriptions.service_machine import ServiceMachine
from sowline.wire.request import Subscribe
from sowline.wire.server_message import ack
from sowline_gateway.query.seen import NONE


class ClientGate:
    """Whether a client may be sent changes: its subscription has begun, is not paused, and its outbox has room."""

    __slots__ = ("_going", "_outbox")

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._going = Flag()

    @property
    def is_open(self) -> bool:
        """Whether changes are sent, as far as there is room."""
        return self._going.is_set()

    def open(self) -> None:
        """Let changes pass."""
        self._going.set()

    def shut(self) -> None:
        """Let no more changes pass, from now on."""
        self._going.clear()

    async def wait_opened(self) -> None:
        """Wait until changes are sent, as far as there is room."""
        await self._going.wait()

    async def wait(self) -> None:
        """Wait until a message may be sent."""
        while True:
            await self._going.wait()
            await self._outbox.wait_turn()
            if self._going.is_set():
                return


class GatewayLife:
    """The life of one subscription."""

    def __init__(self, gate: ClientGate, outbox: Outbox, request: Subscribe, terms: LifeTerms) -> None:
        self.machine = ServiceMachine(terms)
        self.gate = gate
        self._outbox = outbox
        self._request = request

    @property
    def is_beginning(self) -> bool:
        """Whether its start, or that after a loss, is yet to be found."""
        return self.machine.state is ServiceState.BEGINNING

    @property
    def is_live(self) -> bool:
        """Whether the client is sent changes as they happen."""
        return self.machine.state is ServiceState.LIVE

    @property
    def opening(self) -> Opening:
        """The kind of message that the start needs."""
        return self.machine.begin.opening

    def begin(self, positions: PositionsByLog, up_to: str = "") -> bool:
        """Note that the start is found, at these positions; return whether something is to be sent there."""
        self.handle(ServiceSignal.BEGUN, positions, up_to=up_to)
        return self.machine.state is ServiceState.SNAPSHOT

    def handle(
        self, event: Event, positions: PositionsByLog = NONE, *, up_to: str = "", result: Result | None = None
    ) -> None:
        """Take an event, and do what is due.

        `positions` are those of the start or of the group that was sent, or up to which the client was sent
        everything; `result` has the counts.
        """
        for action in self.machine.handle(event):
            match action:
                case GoOn():
                    self.gate.open()
                case Halt():
                    self.gate.shut()
                case Acknowledge(Duty.PROCESSED):
                    fields = {"up_to": up_to, "sub_id": self._request.id_of_subscription}
                    bookmark = format_bookmark(positions)
                    acknowledge_processed(self._outbox, self._request, bookmark=bookmark, **fields)
                case Acknowledge(Duty.COMPLETED, of_group=True):
                    acknowledge_completed(self._outbox, self._request, format_bookmark(positions))
                case Acknowledge(Duty.COMPLETED):
                    self._outbox.put(self.completed(positions), (self._request.id_of_subscription,))
                case Acknowledge(Duty.STATS) if result is not None:
                    acknowledge_counts(self._outbox, self._request, result)

    def completed(self, sent: PositionsByLog) -> bytes:
        """Return the acknowledgement that the client was sent everything up to these positions."""
        request = self._request
        fields = {"bookmark": format_bookmark(sent), "sub_id": request.id_of_subscription}
        return ack("completed", request.command_id, **fields)


class SubscriptionOverNodes:
    """What a session asks of each subscription at a gateway, whatever it shows."""

    def __init__(self, request: Subscribe, life: GatewayLife) -> None:
        self.request = request
        self._life = life

    @property
    def has_begun(self) -> bool:
        """Whether its command was acknowledged, if requested."""
        return self._life.machine.has_begun

    @property
    def is_querying(self) -> bool:
        """Whether its group is still to be sent, or is being sent."""
        return self._life.machine.is_querying

    def stop(self) -> None:
        """Send nothing more, from now on."""
        self._life.handle(ServiceSignal.LEAVE)

    def pause(self) -> None:
        """Send nothing more until `resume`."""
        self._life.handle(ServiceSignal.PAUSE)

    def resume(self) -> None:
        """Continue from the position at which it was paused."""
        self._life.handle(ServiceSignal.RESUME)

    def subscription_status(self) -> SubscriptionStatus:
        """Return whether it is live. The gateway does not know how far it is behind, and returns 0."""
        return SubscriptionStatus(self.request, self._life.machine.status, 0, 0.0)
