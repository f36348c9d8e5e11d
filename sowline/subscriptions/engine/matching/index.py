"""An index of items by their filters: finds the items whose filter matches a document."""

from itertools import count
from typing import Generic

from sowline.language.filter import Filter, Metadata
from sowline.model.path import Document, Path, reader
from sowline.subscriptions.engine.matching.bucket import Bucket
from sowline.subscriptions.engine.matching.entry import Entry, T, make_entry
from sowline.subscriptions.engine.matching.terms import Equality, Key, Terms, keys_of, terms_of


class SubscriptionIndex(Generic[T]):
    """Items, each with a filter. Items are hashable. Equal filters are kept and evaluated once.

    It is pure and has no lock: only one thread, such as an event loop, may use it. Each filter takes about a
    kilobyte.
    """

    def __init__(self) -> None:
        self._numbers = count()
        self._entry_of: dict[T, Entry[T]] = {}
        self._entries: dict[str, Entry[T]] = {}
        self._tables: dict[Path, _Table[T]] = {}
        self._others: Bucket[T] = Bucket()
        self._needing_about = 0

    def __len__(self) -> int:
        return len(self._entry_of)

    @property
    def needs_about(self) -> bool:
        """Whether some filter uses metadata of the record."""
        return self._needing_about > 0

    def add(self, item: T, filter: Filter, number: int | None = None) -> None:
        """Add an item; raise ValueError if it was added before. Without a number, it gets the next one."""
        if item in self._entry_of:
            raise ValueError(f"expected an item that is not in the index, got {item!r}; remove it first")
        entry = self._entries.get(filter.text)
        if entry is None:
            entry = self._entries[filter.text] = self._enter(filter)
        entry.items[item] = next(self._numbers) if number is None else number
        self._entry_of[item] = entry
        assert len(self._entries) <= len(self._entry_of), "each filter has an item"

    def remove(self, item: T) -> None:
        """Remove an item, if the index has it."""
        entry = self._entry_of.pop(item, None)
        if entry is None:
            return
        del entry.items[item]
        if not entry.items:
            del self._entries[entry.filter.text]
            # Clients come and go for months: an empty bucket of each value would stay
            # (test_nothing_is_left_of_what_is_gone).
            self._leave(entry)
        assert len(self._entries) <= len(self._entry_of), "each filter has an item"

    def true_of(self, document: Document, about: Metadata) -> list[Entry[T]]:
        """Return the filters that match the record, each once, in no order, with their items."""
        found = self._others.true_of(document, about)
        for table in self._tables.values():
            found += table.true_of(document, about)
        return found

    def _enter(self, filter: Filter) -> Entry[T]:
        assert filter.text not in self._entries, "items with one filter share its entry"
        self._needing_about += filter.needs_about
        terms = terms_of(filter)
        key = self._best_key(terms)
        entry: Entry[T] = make_entry(filter, terms, key)
        if key is None:
            self._others.add(entry)
        else:
            self._tables.setdefault(key.path, _Table(key.path)).add(entry, key)
        return entry

    def _leave(self, entry: Entry[T]) -> None:
        self._needing_about -= entry.filter.needs_about
        assert 0 <= self._needing_about <= len(self._entries), "only filters that are there are counted"
        if entry.key is None:
            self._others.remove(entry)
            return
        table = self._tables[entry.key.path]
        table.remove(entry, entry.key)
        if not table:
            del self._tables[entry.key.path]

    def _best_key(self, terms: Terms) -> Equality | None:
        """Return the equality with the smallest buckets."""
        # A value that most filters want would lead to a bucket with most filters
        # (test_a_value_that_most_filters_want_is_not_where_they_lie).
        return min(terms.equalities, key=self._crowd, default=None)

    def _crowd(self, equality: Equality) -> tuple[int, int]:
        table = self._tables.get(equality.path)
        return (0 if table is None else table.crowd(equality)), len(equality.keys)


class _Table(Generic[T]):
    """The buckets of one path, by the value that the filters require."""

    def __init__(self, path: Path) -> None:
        self._read = reader(path)
        self._buckets: dict[Key, Bucket[T]] = {}

    def __len__(self) -> int:
        return len(self._buckets)

    def crowd(self, equality: Equality) -> int:
        """Return the size of the largest bucket of an equality."""
        return max(len(self._buckets.get(key, ())) for key in equality.keys)

    def add(self, entry: Entry[T], equality: Equality) -> None:
        for key in equality.keys:
            bucket = self._buckets.get(key)
            if bucket is None:
                bucket = self._buckets[key] = Bucket()
            bucket.add(entry)

    def remove(self, entry: Entry[T], equality: Equality) -> None:
        for key in equality.keys:
            bucket = self._buckets[key]
            bucket.remove(entry)
            if not bucket:
                del self._buckets[key]

    def true_of(self, document: Document, about: Metadata) -> list[Entry[T]]:
        keys = keys_of(self._read(document))
        if len(keys) == 1:
            (key,) = keys
            only = self._buckets.get(key)
            return [] if only is None else only.true_of(document, about)
        buckets = [bucket for key in keys if (bucket := self._buckets.get(key)) is not None]
        if not buckets:
            return []
        if len(buckets) == 1:
            return buckets[0].true_of(document, about)
        # An array has several values, and a text may also spell a number, so one filter may be found several times.
        return list(dict.fromkeys(entry for bucket in buckets for entry in bucket.true_of(document, about)))
