"""Repeats: which numbers a record has seen."""

import pytest

from sowline.commands.command import Command, Origin
from sowline_materializer.core.deduplication import PUBLISHERS_MAX, is_repeat, note_number
from tests.unit.materializer.core.test_applier import HERE, THERE, Core

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


def test_a_repeat_is_dropped() -> None:
    """A publisher's number that is not above its last one for the record changes nothing."""
    core = Core()
    core.write({"id": 1, "a": 1}, publisher="p", sequence="5")
    for sequence in ("5", "4", "4.9"):
        step = core.write({"id": 1, "a": 2}, publisher="p", sequence=sequence)
        assert (step.changes, list(step.outcomes.values())) == ([], ["repeat"])
    assert core.write({"id": 1, "a": 3}, publisher="p", sequence="5.1").changes
    assert core.body("1") == {"id": 1, "a": 3}


def test_repeats_are_judged_for_each_record() -> None:
    """A number that another record has seen is news to this one."""
    core = Core()
    core.write({"id": 1}, publisher="p", sequence="5")
    assert core.write({"id": 2}, publisher="p", sequence="3").changes


def test_a_deleted_record_remembers_its_numbers() -> None:
    """A publish that is repeated after its record was deleted does not bring the record back."""
    core = Core()
    core.write({"id": 1}, publisher="p", sequence="1")
    core.write({"id": 1}, "sow_delete", publisher="p", sequence="2")
    assert core.write({"id": 1}, publisher="p", sequence="1").outcomes == {"2": "repeat"}
    assert core.write({"id": 1}, "sow_delete", publisher="p", sequence="2").outcomes == {"3": "repeat"}
    assert core.body("1") is None


def test_numbers_are_forgotten_after_the_window_of_log_time() -> None:
    """The window counts the log's append time, and that never runs backwards."""
    core = Core(repeat_window="1s")
    core.write({"id": 1}, publisher="p", sequence="5")
    core.time = 2000
    assert core.write({"id": 1}, publisher="p", sequence="5").outcomes == {"1": "repeat"}
    core.time = 2001
    core.write(b"{")
    core.time = 0
    assert core.write({"id": 1}, publisher="p", sequence="5").changes
    assert core.checkpoint.time == 2001


def test_a_ninth_publisher_is_counted() -> None:
    """The step counts publishers that were forgotten before their time."""
    core = Core()
    steps = [core.write({"id": 1}, publisher=f"p{n}", sequence="1") for n in range(9)]
    assert [step.publishers_pushed_out for step in steps] == [0] * 8 + [1]
    assert core.write({"id": 1}, publisher="p0", sequence="1").changes


@pytest.mark.parametrize("origin", ["mirrored:1@99999999999", "mirrored:1@0", "LOG:1@8", "log2:1@8"])
def test_a_copy_from_another_log_is_dropped_and_decides_nothing(origin: str) -> None:
    """Its offsets are not this log's; copies that come after it are judged as if it had never been."""
    core = Core(partitions=2)
    core.write({"id": HERE, "a": 1}, origin="log:1@7")
    for key in (HERE, THERE):
        step = core.write({"id": key, "a": 2}, origin=origin)
        assert (list(step.outcomes.values()), step.changes, step.forwards) == (["foreign"], [], [])
    assert core.write({"id": HERE, "a": 3}, origin="log:1@8").changes[0].origin == Origin(1, 8)
    assert core.checkpoint.origins == {1: 8}
