"""Whether a store is complete: it has a checkpoint, and its entries sum up to its checksum."""

from materializer.core.checkpoint import Checkpoint
from materializer.core.errors import StoreDamaged
from materializer.store.checksum import Checksum, entry_hash, expiry_hash
from materializer.store.interface import Store


def verified_checkpoint(store: Store) -> Checkpoint:
    """Return the checkpoint of a complete store; raise `StoreDamaged`, or `unknown format` before anything else."""
    checkpoint = checkpoint_of(store)
    if (found := checksum_of(store)) != store.checksum():
        raise StoreDamaged(f"expected {store.checksum()}, found {found}")
    return checkpoint


def checkpoint_of(store: Store) -> Checkpoint:
    """Return the checkpoint of a store; raise `StoreDamaged` if there is none, or `unknown format`."""
    data = store.checkpoint()
    if data is None:
        raise StoreDamaged("there is no checkpoint")
    return Checkpoint.decode(data)


def checksum_of(store: Store) -> Checksum:
    """Read every entry of a store and return the resulting checksum."""
    entries = checksum = 0
    for key, data in store.scan():
        entries += 1
        checksum += entry_hash(key, data)
    for due in store.expiries():
        entries += 1
        checksum += expiry_hash(due)
    return Checksum(entries, checksum & 0xFFFFFFFFFFFFFFFF)
