"""The common part of all subscriptions that a service machine leads: what is due at once is done here."""

from abc import ABC, abstractmethod

from sowline.errors import SowlineError
from sowline.model.bookmark import PositionsByLog
from sowline.serving.outbox.group import acknowledge_completed, acknowledge_counts, acknowledge_processed
from sowline.serving.result import Result
from sowline.serving.sessions.status import SubscriptionStatus
from sowline.subscriptions.live.client_gate import ClientGate
from sowline.subscriptions.live.request_checks import GONE
from sowline.subscriptions.service_lifecycle import (
    Acknowledge,
    Action,
    BeginAt,
    Duty,
    Event,
    GoOn,
    Halt,
    ServiceSignal,
)
from sowline.subscriptions.service_machine import LifeTerms, ServiceMachine
from sowline.wire.request import Subscribe
from sowline.wire.server_message import ack, message


class LedSubscription(ABC):
    """A subscription that follows its machine, and keeps no other state about its lifecycle."""

    def __init__(self, request: Subscribe, gate: ClientGate, terms: LifeTerms) -> None:
        self.request = request
        self.machine = ServiceMachine(terms)
        self._gate = gate
        self._outbox = gate.outbox

    # the interface for sessions

    @property
    def has_begun(self) -> bool:
        """Whether its command was acknowledged, if requested."""
        return self.machine.has_begun

    @property
    def is_querying(self) -> bool:
        """Whether its group waits or is being sent."""
        return self.machine.is_querying

    def stop(self) -> None:
        """Send nothing more, from now on."""
        self.tell(ServiceSignal.LEAVE)

    def pause(self) -> None:
        """Send nothing more until `resume`, except the rest of a group that is being sent."""
        self.tell(ServiceSignal.PAUSE)

    def resume(self) -> None:
        """Continue from the position at which it was paused."""
        self.tell(ServiceSignal.RESUME)

    def quiet_position(self) -> PositionsByLog | None:
        """Return the client's positions if it should get a progress message now; None if not."""
        return None

    def subscription_status(self) -> SubscriptionStatus:
        """Return whether it is live, or how far behind."""
        return SubscriptionStatus(self.request, self.machine.status, *self._behind_by)

    @property
    def _behind_by(self) -> tuple[int, float]:
        """The log offsets and seconds that it is behind; 0 if the service does not know."""
        return 0, 0.0

    # its lifecycle

    def tell(self, event: Event, result: Result | None = None, /, **begun: object) -> Action | None:
        """Report an event, and do what is due at once; return what takes time.

        `result` has the counts of what it began with. `begun` is what the acknowledgement of the beginning says
        besides, or instead.
        """
        due: Action | None = None
        for action in self.machine.handle(event):
            match action:
                case Acknowledge(Duty.PROCESSED):
                    fields = {"bookmark": self._bookmark, "up_to": "", "sub_id": self._sub_id, **begun}
                    acknowledge_processed(self._outbox, self.request, **fields)
                case Acknowledge(Duty.COMPLETED, of_group=True):
                    acknowledge_completed(self._outbox, self.request, self._bookmark)
                case Acknowledge(Duty.COMPLETED):
                    self._outbox.put(self._completed(), (self._sub_id,))
                case Acknowledge(Duty.CAUGHT_UP):
                    caught_up = message("caught_up", bookmark=self._bookmark, sids=(self._sub_id,))
                    self._outbox.put_behind(caught_up, (self._sub_id,))
                case Acknowledge(Duty.STATS) if result is not None:
                    acknowledge_counts(self._outbox, self.request, result)
                case GoOn():
                    self._gate.open()
                case Halt():
                    self._halt()
                case _:
                    assert due is None, "an event leads to one action that takes time"
                    due = action
        return due

    def note_sent(self, result: Result) -> None:
        """Report that what the start sends was sent, with its counts."""
        self.tell(ServiceSignal.SENT)
        self.tell(ServiceSignal.COUNTED, result)

    def _instead(self, error: BaseException) -> BeginAt:
        """Return where it begins again after an error; raise the error if it can't continue."""
        is_gone = isinstance(error, SowlineError) and error.reason in GONE
        due = self.tell(ServiceSignal.GONE) if is_gone else None
        if not isinstance(due, BeginAt):
            raise error
        return due

    def _completed(self) -> bytes:
        """Return the acknowledgement that the client was sent everything from before it began, or up to its end."""
        return ack("completed", self.request.command_id, bookmark=self._bookmark, sub_id=self._sub_id)

    @property
    def _sub_id(self) -> str:
        return self.request.id_of_subscription

    @property
    @abstractmethod
    def _bookmark(self) -> str:
        """The bookmark up to which the client was sent everything."""

    def _halt(self) -> None:
        """Send no changes, from now on; stay where the client was sent everything."""
        self._gate.shut()
