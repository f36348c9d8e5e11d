"""Repeats: which numbers a record has seen."""

import pytest

from sowline.commands.command import Command
from sowline_materializer.core.deduplication import PUBLISHERS_MAX, is_repeat, note_number

WINDOW = 100


def command(publisher: str, row: int, part: int = 0) -> Command:
    """Return a publish with a number."""
    return Command(publisher=publisher, sequence=(row, part))


@pytest.mark.parametrize(
    ("number", "repeat"),
    [((4, 9), True), ((5, 1), True), ((5, 2), True), ((5, 3), False), ((6, 0), False), ((10, 0), False)],
)
def test_a_number_not_above_the_highest_is_a_repeat(number: tuple[int, int], repeat: bool) -> None:
    """Numbers compare as (n, m); the highest itself is a repeat."""
    assert is_repeat({"p": (5, 2, 1000)}, command("p", *number), 1000 - WINDOW) is repeat


@pytest.mark.parametrize(("time", "repeat"), [(1000, True), (1100, True), (1101, False)])
def test_a_number_is_remembered_for_the_window(time: int, repeat: bool) -> None:
    """The window is of log time and includes its end."""
    assert is_repeat({"p": (5, 0, 1000)}, command("p", 5), time - WINDOW) is repeat


@pytest.mark.parametrize("numbers", [None, {}, {"q": (9, 0, 1000)}])
def test_another_publishers_numbers_do_not_count(numbers: dict[str, tuple[int, int, int]] | None) -> None:
    """Each publisher has its own numbers."""
    assert not is_repeat(numbers, command("p", 1), 1000 - WINDOW)


def test_a_command_without_a_number_is_never_a_repeat() -> None:
    """A plain producer's records are all applied."""
    assert not is_repeat({"p": (9, 0, 1000)}, Command(), 1000 - WINDOW)


def test_the_latest_number_is_kept_with_its_time() -> None:
    """A record remembers its publisher's highest number, and when it came."""
    assert note_number(None, command("p", 5, 1), 1000, 1000 - WINDOW) == ({"p": (5, 1, 1000)}, 0)
    assert note_number({"p": (5, 1, 1000)}, command("p", 6), 1010, 1010 - WINDOW) == ({"p": (6, 0, 1010)}, 0)


def test_the_ninth_publisher_pushes_out_the_oldest() -> None:
    """Of more publishers than there is room for, the one that wrote longest ago goes, and that is counted."""
    numbers = {f"p{n}": (1, 0, 1000 + n) for n in range(PUBLISHERS_MAX)}
    kept, pushed_out = note_number(numbers, command("new", 1), 1050, 1050 - WINDOW)
    assert pushed_out == 1
    assert kept is not None
    assert set(kept) == {*numbers, "new"} - {"p0"}


def test_of_two_equally_old_the_first_name_is_pushed_out() -> None:
    """Which publisher goes never depends on the order in a dict."""
    names = [f"p{n}" for n in range(PUBLISHERS_MAX)]
    for order in (names, names[::-1]):
        kept, _ = note_number(dict.fromkeys(order, (1, 0, 1000)), command("a", 1), 1000, 1000 - WINDOW)
        assert kept is not None
        assert "p0" not in kept
        assert "a" in kept


@pytest.mark.parametrize("writer", [Command(), command("q", 1)])
def test_numbers_out_of_the_window_go_with_any_update(writer: Command) -> None:
    """They go no matter who writes, so that it can't matter when a deleted record's memory was cleared."""
    kept, pushed_out = note_number({"p": (5, 0, 1000)}, writer, 1101, 1101 - WINDOW)
    assert "p" not in (kept or {})
    assert pushed_out == 0


def test_no_numbers_are_none() -> None:
    """A record without numbers says nothing of them."""
    assert note_number(None, Command(), 0, 0 - WINDOW) == (None, 0)
    assert note_number({"p": (5, 0, 0)}, Command(), 101, 101 - WINDOW) == (None, 0)
