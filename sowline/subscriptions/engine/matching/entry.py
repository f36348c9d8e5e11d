"""One filter in an index: the items that use it, and its position."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from sowline.language.filter import Filter
from sowline.model.path import Path
from sowline.subscriptions.engine.matching.terms import ANY_NUMBER, Equality, Range, Terms, common, point

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Entry(Generic[T]):
    """A filter with all items that have it, each with its number in the order of adding.

    It is in the buckets of the equality `key`, or in none. There, a document must also match the `ranges` of numbers
    and the `texts`, one per path. If it is `whole`, these are the whole filter.
    """

    filter: Filter
    key: Equality | None
    ranges: dict[Path, Range]
    texts: dict[Path, str]
    whole: bool
    items: dict[T, int] = field(default_factory=dict)
    is_decided: bool = field(init=False)
    """Whether the filter matches every document that leads to its bucket."""

    def __post_init__(self) -> None:
        self.is_decided = self.whole and not self.ranges and not self.texts


def make_entry(filter: Filter, terms: Terms, key: Equality | None) -> Entry[T]:
    """Return the entry of a filter that is found by the equality `key`; the others become texts and points."""
    ranges, texts, whole = dict(terms.ranges), dict[Path, str](), terms.whole
    for equality in terms.equalities:
        if equality is key:
            continue
        # One column can compare a field with one text or one number. The filter itself decides `a IN ('x', 'y')`, and
        # two texts for one field.
        literal = equality.literals[0] if len(equality.literals) == 1 else None
        if isinstance(literal, str) and texts.setdefault(equality.path, literal) == literal:
            continue
        exact = None if literal is None or isinstance(literal, str) else point(literal)
        if exact is None:
            whole = False
        else:
            ranges[equality.path] = common(exact, ranges.get(equality.path, ANY_NUMBER))
    return Entry(filter, key, ranges, texts, whole)
