"""The load of one partition of a fanout: the records at the time when the fanout starts. Pure.

A new fanout has no position to continue from; nor has one whose changes topic was deleted and created again. It loads
the partition by the rule that all readers share (`sowline.changes.changes_reader`), and writes the resulting
messages.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from sowline.changes.change import DELETE, DELETED, Change
from sowline.changes.newest_changes import NewestChanges
from sowline.language.filter import Metadata
from sowline.model.position import before_the_log
from sowline.subscriptions.engine.subscription import MATCH, OOF, ChangeView, Delivery, Subscription

SOW = "sow"


@dataclass
class Load(NewestChanges):
    """The newest change of each key, and the messages that a fanout writes of them."""

    newest: dict[bytes, Change] = field(default_factory=dict)

    def messages(
        self, subscription: Subscription, about: Metadata, written: dict[bytes, bytes]
    ) -> list[tuple[Change, Delivery]]:
        """Return the messages to write, in the order of their positions: `sow` for records that match, and `oof`.

        `written` has the bodies that readers of the fanout hold, by SOW key. Those that no longer match get an `oof`,
        whose delivery has what readers hold as the previous record.
        If compaction has removed a record's deletion, or its previous body, the `oof` has no position.
        """
        return sorted(self._messages(subscription, about, written), key=lambda pair: pair[0].position)

    def _messages(
        self, subscription: Subscription, about: Metadata, written: dict[bytes, bytes]
    ) -> Iterator[tuple[Change, Delivery]]:
        # A record that readers hold has left no event: compaction removed its deletion too. The `oof` has no
        # position, because readers would drop it as a repeat (test_load_over_records_that_left_no_trace).
        nowhere = before_the_log()
        vanished = {
            key: Change(
                sow_key=key, body=None, previous=None, position=nowhere, after=nowhere, op=DELETE, time=0
            )
            for key in written
        }
        for key, change in (vanished | self.newest).items():
            assert change.sow_key == key, "a load has each change under its key"
            if change.body is not None and ChangeView(change, about).matches_now(subscription.filter):
                yield change, Delivery(SOW, change.body, known=change.known)
            elif key in written and change.body is not None:
                yield change, Delivery(OOF, change.body, MATCH, written[key], change.known)
            elif key in written and change.previous is not None:
                yield change, Delivery(OOF, change.previous, DELETED, written[key], change.known)
            elif key in written:
                yield replace(change, position=nowhere), Delivery(OOF, written[key], DELETED)
