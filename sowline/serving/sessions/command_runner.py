"""The shared parts of a session's commands: its outbox, its rights, and the handling of failures."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from sowline.errors import SowlineError
from sowline.serving.access.login_session import LoginSession
from sowline.serving.authorization.entitlements import Rights
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.outbox.typed_outbox import TypedOutbox
from sowline.serving.query_slots import Asker, QuerySlot, QuerySlots
from sowline.serving.refusal import unforeseen
from sowline.serving.typed_records.messages import TypedMessages
from sowline.serving.window_memory import WindowHolder
from sowline.wire.options import Options
from sowline.wire.request import Read, Request
from sowline.wire.server_message import failure

log = structlog.get_logger()

QUERIES_MAX = 100
"""The most queries of one client that run or wait for their turn, and checksums of one subscription."""

Run = Callable[[], Coroutine[Any, Any, None]]
"""The work of a command. It is called when its task starts, and never if the task is cancelled before."""


class CommandRunner:
    """Runs the work of commands in separate tasks."""

    def __init__(
        self, outbox: Outbox, login: LoginSession, typed_messages: TypedMessages, slots: QuerySlots
    ) -> None:
        self.outbox = outbox
        self._login = login
        self._slots = slots
        self._typed_messages = typed_messages
        self._typed_outbox: TypedOutbox | None = None

    @property
    def rights(self) -> Rights:
        """The client's rights; raises `logon required`."""
        return self._login.identity.rights

    def outbox_for(self, options: Options) -> Outbox:
        """Return the outbox for the messages of a read with these options."""
        if not options.is_typed:
            return self.outbox
        if self._typed_outbox is None:
            self._typed_outbox = TypedOutbox(self.outbox, self._typed_messages)
        return self._typed_outbox

    @property
    def is_of_gateway(self) -> bool:
        """Whether the client is a gateway that acts with the rights of its own client."""
        return self._login.identity.delegated is not None

    def new_slot(self) -> QuerySlot:
        """Return a slot for queries whose answers the client reads."""
        return self._slots.new(Asker(self._login.payer, self, self.outbox, is_limited=not self.is_of_gateway))

    def new_fill_slot(self) -> QuerySlot:
        """Return a slot for filling a view: it waits for no client, so a gateway's may wait, too."""
        return self._slots.new(Asker(self._login.payer, self))

    def holder_for(self, request: Read) -> WindowHolder:
        """Return who holds the view of a subscription: at a gateway's connection, the user that it names."""
        if self.is_of_gateway:
            return WindowHolder(request.of_gateway.user, None)
        return WindowHolder(self._login.payer, self)

    def start(self, request: Request, run: Run, ack_type: str, **fields: Any) -> asyncio.Task[None]:
        """Start the work of a command; acknowledge a failure with this `ack_type`."""
        return asyncio.get_running_loop().create_task(self._run_guarded(request, run, ack_type, **fields))

    async def _run_guarded(self, request: Request, run: Run, ack_type: str, **fields: Any) -> None:
        try:
            await run()
        except SowlineError as error:
            self._fail(request, error, ack_type, **fields)
        except Exception as error:
            log.exception("command failed", command=request.command, command_id=request.command_id)
            self._fail(request, unforeseen(f"the {request.command} failed", error), ack_type, **fields)

    def _fail(self, request: Request, error: SowlineError, ack_type: str, **fields: Any) -> None:
        # With the names, the failure waits for messages of the same subscription: after it, a client expects none.
        names = request.id_of_subscription, request.id_of_query
        self.outbox.put(failure(request.command_id, error, ack_type, **fields), names)


def too_many_in_flight(most: str) -> SowlineError:
    """Return the error for a command that exceeds the limit of its kind on a connection."""
    return SowlineError("busy", f"this connection already has {most} in flight; wait for one to finish")
