"""One subscriber of a live window: what its client holds while it is not sent each change."""

import asyncio
import time

from sowline.errors import SowlineError
from sowline.model.bookmark import Positions
from sowline.serving.outbox.outbox import Outbox
from sowline.serving.window_memory import HELD_BYTES, WindowHolder, WindowMemory
from sowline.subscriptions.engine.delivery import Form
from sowline.subscriptions.engine.page import Page
from sowline.subscriptions.engine.shown import ShownRecord, as_sent, identifying_fields, keys_shown
from sowline.subscriptions.engine.subscription import (
    MATCH,
    ChangeView,
    Delivery,
    as_left,
    left_sight,
)
from sowline.subscriptions.live.conflation import Conflated
from sowline.subscriptions.live.put_payload import RankOf
from sowline_query_service.live.away import AwayViewers
from sowline_query_service.query.selection import Selection
from sowline_query_service.topics.topic_state import TopicState


class Viewer:
    """One subscriber of a window. While it is not live, `held` is its client's window, at `positions`."""

    def __init__(  # noqa: PLR0913 - the parts of a subscription, and where it is counted and noted
        self,
        outbox: Outbox,
        sub_id: str,
        topic: TopicState,
        selection: Selection,
        memory: WindowMemory,
        holder: WindowHolder,
        *,
        delta: bool,
        rank_of: RankOf,
        away: AwayViewers,
    ) -> None:
        options = selection.options
        self._memory = memory
        self.holder = holder
        self.failed: SowlineError | None = None
        """Why it ends, with its window or alone."""
        self.outbox = outbox
        self.sub_id = sub_id
        self.oof = options.oof
        self.no_redundant = options.no_redundant
        self.merges = selection.merges
        self.rank_of = rank_of if options.rank else None
        """Returns the rank of a record in its window now; None if it has not requested ranks."""
        self._entitled = selection.entitled.get(topic.definition.name)
        self._away = away
        self._left_sight: dict[bytes, Delivery] = {}
        """The last change that took each record of `held` out of the user's sight, if one did."""
        self._is_of_conflated = topic.definition.is_conflated
        self.form = Form.live(options, topic.definition, delta=delta)
        self.keys = keys_shown(topic.definition, options)
        self.page = Page(selection.skip_n, selection.top_n or 0)
        self._held: dict[bytes, ShownRecord] = {}
        self.positions: Positions = {}
        self.behind = asyncio.Event()
        self.live = asyncio.Event()
        """Whether it gets each change of the window at once."""
        self._is_over = asyncio.Event()
        """Whether it is no longer behind: live again, or failed."""
        self.level_at = time.monotonic()
        """When it was last live, by the monotonic clock, if it is not live now."""
        self.was_sent = False
        """Whether it was sent a message since this was last set to False."""
        self.conflated = Conflated.of(
            self,
            topic.definition,
            identifying_fields(topic.definition, options),
            options,
            lambda: topic.positions,
            of_each=True,
            rank_of=self.rank_of,
        )

    @property
    def held(self) -> dict[bytes, ShownRecord]:
        """The window of its client while it is not live."""
        return self._held

    @held.setter
    def held(self, held: dict[bytes, ShownRecord]) -> None:
        # Ten thousand subscriptions of a connection that reads nothing share one window, but each holds its own copy
        # (test_what_slow_clients_hold_counts).
        self._memory.count(self.holder, (len(held) - len(self._held)) * HELD_BYTES)
        self._held = held
        if self._entitled is None:
            return
        if held:
            self._away.enter(self, self._entitled)
        else:
            self._away.leave(self, self._entitled)
            self._left_sight = {}

    def hold(self, held: dict[bytes, ShownRecord], positions: Positions) -> None:
        """Be behind at these positions, with this window at the client; fail if there is no memory for it."""
        assert not self.live.is_set(), "a viewer that is live holds no window of its own"
        self._is_over.clear()
        self.held = {}
        self.held, self.positions = held, positions
        self.behind.set()
        if held and (refusal := self._memory.excess(self.holder)) is not None:
            self.fail(refusal)

    def be_live(self) -> None:
        """Get each change of the window from now on."""
        assert self.failed is None, "what has failed does not go on"
        self.held = {}
        self.behind.clear()
        self.live.set()
        self._is_over.set()

    def fail(self, error: SowlineError) -> None:
        """End it at once, and forget what its client holds."""
        self.failed = error
        self.held = {}
        self.behind.set()
        self._is_over.set()

    async def wait_live(self) -> None:
        """Wait until it is live again; raise its error as soon as it fails."""
        await self._is_over.wait()
        if self.failed is not None:
            raise self.failed

    def take_from(self, replaced: "Viewer") -> None:
        """Take over the client's window from the viewer that this one replaces."""
        assert not self._held, "a new viewer holds nothing"
        assert not replaced.live.is_set(), "a viewer that was replaced is live no more"
        self._left_sight = replaced._left_sight
        held, replaced.held = replaced.held, {}
        self.held, self.positions = held, replaced.positions

    def forget_form(self) -> None:
        """Note that the client holds bodies in another form than that of the new messages."""
        assert not self.live.is_set(), "the new form is that of all that comes while it is live"
        # The replaced subscription selected /a, this one selects /a and /b. Records that did not change would be left
        # out of the difference, and the client would never get their /b. With this mark they are sent whole.
        self.held = {key: shown.as_guess() for key, shown in self.held.items()}

    def as_sent(self, delivery: Delivery) -> Delivery:
        """Return the message as this user may see it."""
        return as_sent(delivery, self._entitled, is_conflated=self._is_of_conflated)

    def note_change(self, seen: ChangeView) -> None:
        """Note a change since its positions."""
        if self._entitled is None or seen.change.sow_key not in self._held:
            return
        if (gone := left_sight(seen, self._entitled)) is not None:
            self.note_left(seen.change.sow_key, gone)

    def note_left(self, sow_key: bytes, gone: Delivery) -> None:
        """Note the change that took a record out of the user's sight, if the client holds the record."""
        if sow_key in self._held:
            self._left_sight[sow_key] = gone

    def leaving(self, sow_key: bytes, delivery: Delivery) -> Delivery:
        """Return the `oof` of a record or group of its client's window as this user may see it."""
        sent = self.as_sent(delivery)
        if self._entitled is None or sent.reason == MATCH:
            return sent
        # This user must not learn what happened to the record out of its sight
        # (test_what_happened_to_a_hidden_record_is_not_disclosed).
        return as_left(self._left_sight.get(sow_key), self._held[sow_key].body)

    @property
    def is_too_slow(self) -> bool:
        """Whether the client is too slow for live messages; conflated ones may wait longer."""
        return self.outbox.full and (self.conflated is None or self.conflated.is_large)
