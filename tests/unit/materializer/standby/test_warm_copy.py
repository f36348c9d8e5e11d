"""The copy of one partition: how it is loaded, handed over, and loaded again; what lies on the disk meanwhile."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sowline.changes.event import Event
from sowline.commands.stored_format import UnknownFormat
from sowline.model.position import Position
from sowline_materializer.core.checkpoint import EVERYTHING, Checkpoint
from sowline_materializer.core.errors import StoreDamaged
from sowline_materializer.standby.warm_copy import ReadEvent, WarmCopy
from sowline_materializer.store.rocksdb import RocksStore
from tests.unit.materializer.standby.followed import DEFINITION, change, progress


def check_only_the_first(copy: WarmCopy) -> None:
    """Check that a copy that is loaded again has the first record, and no other."""
    while copy.reads_from is None:
        copy.check()
    store = copy.hand_over()
    assert store is not None
    assert [key for key, _ in store.scan()] == [b"1"]
    store.close()


@pytest.fixture
def copies(tmp_path: Path) -> Iterator["Copies"]:
    """Copies of one partition on a real disk."""
    copies = Copies(tmp_path / "0")
    yield copies
    copies.close()


class Copies:
    """The copy of one partition, begun again and again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.changes_id = "a"
        self.copy: WarmCopy | None = None

    def begun(self, store: RocksStore | None = None) -> WarmCopy:
        """Return a copy that has checked what it has found."""
        self.close()
        self.copy = WarmCopy(DEFINITION, 0, self.path, lambda topic: self.changes_id, store)
        self.copy.begin()
        while self.copy.reads_from is None:
            self.copy.check()
        return self.copy

    def loaded(self, *events: Event) -> WarmCopy:
        """Return a copy that has loaded these events and follows."""
        copy = self.begun()
        assert not copy.take(written(*events), len(events))
        while copy.reads_from is None:
            copy.check()
        assert copy.is_warm
        return copy

    def close(self) -> None:
        """Let go of the files."""
        if self.copy is not None:
            self.copy.close()


def written(*events: Event, start: int = 0) -> list[ReadEvent]:
    """Return events with their offsets."""
    return [ReadEvent(offset, event) for offset, event in enumerate(events, start)]


THREE = (progress(-1), change(0), change(1, b"2", b'{"id":2}'))


def test_a_copy_is_loaded_then_follows_then_is_handed_over(copies: Copies) -> None:
    """What is handed over is open, and holds all that was taken in."""
    copy = copies.loaded(*THREE)
    assert copy.reads_from == 3
    assert copy.take(written(change(2, body=None), start=3), 4)
    store = copy.hand_over()
    assert store is not None
    assert [key for key, _ in store.scan()] == [b"2"]
    assert Checkpoint.decode(store.checkpoint() or b"").changes_end == 4
    store.close()


def test_a_copy_goes_on_from_what_it_was(copies: Copies) -> None:
    """After a restart it is checked, and follows from where it stood; a store that is handed to it likewise."""
    copies.loaded(*THREE)
    again = copies.begun()
    assert (again.is_warm, again.reads_from) == (True, 3)
    store = again.hand_over()
    assert (copies.begun(store).is_warm, copies.copy and copies.copy.reads_from) == (True, 3)


def test_an_unfinished_load_is_not_handed_over(copies: Copies) -> None:
    """Where a load has not come to its end, or does not say where it stands, there is nothing yet."""
    copy = copies.begun()
    assert copy.take(written(*THREE[:2]), 3)
    assert (copy.is_warm, copy.has_caught_up, copy.hand_over()) == (False, False, None)
    copy = copies.begun()
    assert copy.take(written(*THREE[1:]), 2)
    assert (copy.is_warm, copy.has_caught_up, copy.hand_over()) == (False, True, None)
    assert not RocksStore.exists(copies.path)


def test_what_is_not_checked_yet_is_not_handed_over(copies: Copies) -> None:
    """A worker that takes over then checks it like every store that is opened."""
    copies.loaded(*THREE).close()
    copy = WarmCopy(DEFINITION, 0, copies.path, lambda topic: "a")
    copy.begin()
    assert not copy.check()
    assert copy.hand_over() is None
    RocksStore(copies.path, create=False).close()


@pytest.mark.parametrize("why", ["a hole", "a gap", "another topic", "stale_keys"])
def test_the_old_state_stays_until_the_new_is_whole(copies: Copies, why: str) -> None:
    """Where the changes do not lead on from it they are loaded beside it, and it can still be handed over."""
    copy = copies.loaded(*THREE)
    if why == "a hole":
        assert not copy.take(written(change(2), start=4), 5)
    elif why == "a gap":
        assert not copy.take(written(change(3), start=3), 4)
    elif why == "another topic":
        assert not copy.is_of("b")
        copies.changes_id = "b"
        copy = copies.begun()
    else:
        store = copy.hand_over()
        assert store is not None
        checkpoint = replace(Checkpoint.decode(store.checkpoint() or b""), stale_keys=frozenset({EVERYTHING}))
        store.commit({}, store.checksum(), checkpoint.encode())
        copy = copies.begun(store)
    assert (copy.is_warm, copy.reads_from) == (False, 0)
    store = copy.hand_over()
    assert store is not None
    assert len(list(store.scan())) == 2
    copy = copies.begun(store)
    if why in ("another topic", "stale_keys"):
        copy.take(written(progress(-1), change(5, after=Position(0, -1))), 2)
        check_only_the_first(copy)


def test_a_head_that_is_deleted_during_a_load(copies: Copies) -> None:
    """What was loaded lacks the deleted events: it is not taken, and loaded again."""
    copy = copies.loaded(*THREE)
    copy.reload("the changes topic does not reach so far")
    copies.changes_id = "a@1"
    assert not copy.take(written(*THREE), 3)
    assert (copy.is_warm, copy.reads_from) == (False, 0)
    assert not copy.take(written(*THREE[:2], progress(1, changes_id="a@1")), 3)
    check_only_the_first(copy)


def test_damage_is_found_and_a_strange_form_is_let_alone(copies: Copies) -> None:
    """A copy is checked like every store that is opened; what another version wrote is not touched."""
    store = copies.loaded(*THREE).hand_over()
    assert store is not None
    checksum, checkpoint = store.checksum(), store.checkpoint() or b""
    store.commit({b"9": b"x"}, checksum, checkpoint)
    with pytest.raises(StoreDamaged):
        copies.begun(store)
    copies.close()
    store = RocksStore(copies.path, create=False)
    store.commit({}, checksum, checkpoint.replace(b'"format":2', b'"format":9'))
    with pytest.raises(UnknownFormat):
        copies.begun(store)
    copies.close()
    assert RocksStore.exists(copies.path)
