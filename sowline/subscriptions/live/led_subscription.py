"""The common part of all subscriptions that a service machine leads: what is due at once is done here."""

from abc import ABC, abstractmethod

from sowline.errors import SowlineError
from sowline.serving.flag import Flag
from sowline.subscriptions.live.request_checks import GONE
from sowline.subscriptions.service_lifecycle import (
    Acknowledge,
    Action,
    BeginAt,
    Event,
    GoOn,
    Halt,
    LifeTerms,
    ServiceSignal,
)
from sowline.subscriptions.service_machine import ServiceMachine


class LedSubscription(ABC):
    """A subscription whose life is that of its machine: it keeps no state of its own about that."""

    def __init__(self, terms: LifeTerms) -> None:
        self.machine = ServiceMachine(terms)
        self._going = Flag()
        """Whether the machine lets changes be sent."""

    @property
    def has_begun(self) -> bool:
        """Whether its command was acknowledged, if requested."""
        return self.machine.has_begun

    @property
    def is_querying(self) -> bool:
        """Whether its group waits or is being sent."""
        return self.machine.is_querying

    def pause(self) -> None:
        """Send nothing more until `resume`, except the rest of a group that is being sent."""
        self._tell(ServiceSignal.PAUSE)

    def resume(self) -> None:
        """Continue from the position at which it was paused."""
        self._tell(ServiceSignal.RESUME)

    def _tell(self, event: Event) -> Action | None:
        """Report an event, and do what is due at once; return what takes time."""
        due: Action | None = None
        for action in self.machine.handle(event):
            match action:
                case Acknowledge():
                    self._acknowledge(action)
                case GoOn():
                    self._going.set()
                case Halt():
                    self._going.clear()
                    self._halt()
                case _:
                    due = action
        return due

    def _instead(self, error: BaseException) -> BeginAt:
        """Return where it begins because of an error; raise the error if it can't continue."""
        is_gone = isinstance(error, SowlineError) and error.reason in GONE
        due = self._tell(ServiceSignal.GONE) if is_gone else None
        if not isinstance(due, BeginAt):
            raise error
        return due

    @abstractmethod
    def _acknowledge(self, due: Acknowledge) -> None:
        """Send an acknowledgement."""

    @abstractmethod
    def _halt(self) -> None:
        """Send no changes, from now on; stay where the client was sent everything."""
