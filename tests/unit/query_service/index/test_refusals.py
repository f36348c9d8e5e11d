"""Refusals: which memo indexes queries do without, and for how long."""

from sowline.model.path import parse_path
from sowline_query_service.index.refusals import PATHS_MAX, PATIENCE, Refusals

A, B, C = map(parse_path, ("/a", "/b", "/c"))


def test_what_goes_before_it_is_used_is_refused_to_those_who_want_the_same() -> None:
    """Others may have room for it."""
    refusals = Refusals()
    refusals.awaited(frozenset({A, B}))
    refusals.dropped(A)
    assert refusals.applies(A, {A, B})
    assert not refusals.applies(A, {A})
    assert not refusals.applies(B, {A, B})
    assert (A in refusals, B in refusals) == (True, False)


def test_what_goes_after_it_was_used_is_not_refused() -> None:
    """The next query makes it again."""
    refusals = Refusals()
    refusals.awaited(frozenset({A}))
    refusals.answered({A})
    refusals.dropped(A)
    assert not refusals.applies(A, {A})


def test_what_is_too_large_is_refused_to_all() -> None:
    """Until it is there, by whatever way."""
    refusals = Refusals()
    refusals.too_large(A)
    assert refusals.applies(A, {A})
    assert refusals.applies(A, {A, C})
    refusals.made(A)
    assert not refusals.applies(A, {A})


def test_a_refusal_wears_off() -> None:
    """After so many queries that did without it, one tries again."""
    refusals = Refusals()
    refusals.too_large(A)
    for _ in range(PATIENCE - 1):
        refusals.answered({A})
        refusals.answered({B})
    assert refusals.applies(A, {A})
    refusals.answered({A})
    assert not refusals.applies(A, {A})


def test_refusals_have_a_limit() -> None:
    """Whatever fields queries ask for: what was refused long ago is tried again."""
    refusals = Refusals()
    for number in range(PATHS_MAX + 1):
        path = parse_path(f"/f{number}")
        refusals.awaited(frozenset({path}))
        refusals.dropped(path)
        assert refusals.applies(path, {path})
    assert parse_path("/f0") not in refusals
