"""The batches that the outputs of a notebook get: what they then show, how many there are, and how much waits."""

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sowline.client.displays import (
    BATCH_SECONDS_MIN,
    COLUMNS_MAX,
    DISPLAYS_MAX,
    LEAVE_SECONDS,
    ROWS_MAX,
    UNANSWERED_BYTES_MAX,
    Displays,
)
from sowline.client.records import RowSlice

Json = dict[str, Any]
COUNT = 3


class View:
    """Records in the order of their keys, as a view has them."""

    def __init__(self, **records: Json) -> None:
        self.bodies: dict[str, bytes] = {}
        self.ended = ""
        for key, record in records.items():
            self.write(key, record)

    def write(self, key: str, record: Json) -> None:
        """Set a record."""
        self.bodies[key] = json.dumps(record).encode()

    def rows(self, first: int, count: int) -> RowSlice:
        """Return what a display asks for."""
        return RowSlice(sorted(self.bodies.items())[first : first + count], len(self.bodies), self.ended, 0)

    def texts(self, first: int, count: int) -> list[Json]:
        """Return the records of a range, as texts."""
        rows = self.rows(first, count).bodies
        return [{name: str(value) for name, value in json.loads(body).items()} for _, body in rows]


class Page:
    """What grid.js makes of batches."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.last: Json = {}
        self._cells: dict[str, list[str]] = {}

    def show(self, first: int = 0, count: int = COUNT, *, fresh: bool = True) -> Json:
        """Return its message that asks for rows."""
        return {"kind": "show", "display": self.name, "first": first, "count": count, "fresh": fresh}

    def take(self, batch: Json) -> Json:
        """Take a batch, and return the answer."""
        if batch["whole"]:
            self._cells.clear()
        else:
            assert batch["number"] == self.last["number"] + 1
        self._cells |= batch["cells"]
        self._cells = {key: self._cells[key] for key in batch["keys"]}
        self.last = batch
        return {"kind": "answer", "display": self.name, "number": batch["number"]}

    @property
    def texts(self) -> list[Json]:
        """The rows that it shows, without fields that a record lacks."""
        names = [column["name"] for column in self.last["columns"]]
        rows = [zip(names, self._cells[key], strict=False) for key in self.last["keys"]]
        return [{name: text for name, text in row if text} for row in rows]


def shown(view: View, *names: str) -> tuple[Displays, list[Page]]:
    """Displays that have asked for rows and got them at time 0."""
    displays, pages = Displays(), [Page(name) for name in names]
    for page in pages:
        displays.take(page.show(), 0)
    for page, batch in zip(pages, displays.batches(0, view.rows), strict=True):
        displays.take(page.take(batch), 0)
    return displays, pages


STEPS = st.one_of(
    st.tuples(
        st.just("write"),
        st.sampled_from("abcdef"),
        st.dictionaries(st.sampled_from("xyz"), st.integers(0, 9)),
    ),
    st.tuples(st.just("delete"), st.sampled_from("abcdef")),
    st.tuples(st.just("scroll"), st.integers(0, 4)),
    st.tuples(st.just("reload")),
    st.tuples(st.just("answer")),
    st.tuples(st.just("wait"), st.floats(0, 1)),
)


class Life:
    """A display from its first message on; its answers may be late."""

    def __init__(self) -> None:
        self.view, self.displays = View(), Displays()
        self.now = 0.0
        self.sent_at: list[float] = []
        self._answers: list[Json] = []
        self.scroll(0, fresh=True)

    def write(self, key: str, record: Json) -> None:
        """Set a record."""
        self.view.write(key, record)

    def delete(self, key: str) -> None:
        """Delete a record, if it is there."""
        self.view.bodies.pop(key, None)

    def scroll(self, first: int, *, fresh: bool = False) -> None:
        """Show other rows; or load the page again, which has no batch then."""
        self.first = first
        if fresh:
            self.page = Page("a")
            self._answers.clear()
        self.displays.take(self.page.show(first, fresh=fresh), self.now)

    def reload(self) -> None:
        """Load the page again."""
        self.scroll(self.first, fresh=True)

    def answer(self) -> None:
        """Answer all batches."""
        for answer in self._answers:
            self.displays.take(answer, self.now)
        self._answers.clear()

    def wait(self, seconds: float) -> None:
        """Let time go by."""
        self.now += seconds

    def push(self) -> None:
        """Send batches, if that may be."""
        if self.displays.pause_seconds(self.now) == 0:
            batches = self.displays.batches(self.now, self.view.rows)
            self._answers += [self.page.take(batch) for batch in batches]
            self.sent_at += [self.now] * bool(batches)


@given(st.lists(STEPS, max_size=60))
def test_a_display_shows_the_rows_of_the_view(steps: list[tuple[Any, ...]]) -> None:
    """After any changes, scrolling, reloading and late answers; with at most ten messages a second."""
    life = Life()
    for step, *arguments in [*steps, ("wait", 1)]:
        getattr(life, step)(*arguments)
        life.push()
    assert life.page.texts == life.view.texts(life.first, COUNT)
    assert (life.page.last["total"], life.page.last["first"]) == (len(life.view.bodies), life.first)
    assert all(later - earlier > BATCH_SECONDS_MIN * 0.999 for earlier, later in pairwise(life.sent_at))
    assert life.displays.batches(life.now, life.view.rows) == []


def test_changes_of_one_record_are_one() -> None:
    """A batch has the record as it is when the batch is made, and no record that the display has already."""
    view = View(a={"id": 1}, b={"id": 2})
    displays, (page,) = shown(view, "page")
    for qty in range(100):
        view.write("b", {"id": 2, "qty": qty})
    (batch,) = displays.batches(1, view.rows)
    assert batch["cells"] == {"b": ["2", "99"]}
    page.take(batch)
    assert page.texts == [{"id": "1"}, {"id": "2", "qty": "99"}]


def test_a_display_that_does_not_answer_takes_little_memory() -> None:
    """It gets no more batches, until it answers; then it gets the newest rows, in one."""
    view = View()
    displays, (page,) = shown(view, "page")
    answers, sent_bytes = [], 0
    for round in range(2000):  # noqa: A001 - the number of the round
        view.write("a", {f"field{at}": f"{round:040}" for at in range(COLUMNS_MAX)})
        for batch in displays.batches(round, view.rows):
            sent_bytes += len(json.dumps(batch["cells"]))
            answers.append(page.take(batch))
    assert UNANSWERED_BYTES_MAX / 2 < sent_bytes < UNANSWERED_BYTES_MAX * 1.1
    displays.take(answers[-1], 3000)
    (batch,) = displays.batches(3000, view.rows)
    page.take(batch)
    assert page.texts == view.texts(0, 1)


def test_columns() -> None:
    """In the order in which fields appear; numbers only where all values are; at most so many."""
    view = View(a={"id": 1, "flag": True, "none": None}, b={"id": 2.5, "qty": 1}, c={"qty": "many"})
    _, (page,) = shown(view, "page")
    assert page.last["columns"] == [
        {"name": "id", "numeric": True},
        {"name": "flag", "numeric": False},
        {"name": "none", "numeric": True},
        {"name": "qty", "numeric": False},
    ]
    assert page.texts[0] == {"id": "1", "flag": "true", "none": "-"}
    assert page.last["cut"] is False
    _, (page,) = shown(View(a={f"field{at}": at for at in range(COLUMNS_MAX + 1)}), "page")
    assert (len(page.last["columns"]), page.last["cut"]) == (COLUMNS_MAX, True)


def test_a_display_can_ask_for_a_part_only() -> None:
    """No message makes the kernel send a whole topic."""
    view = View(**{f"k{at:04}": {"id": at} for at in range(1000)})
    displays = Displays()
    displays.take(Page("page").show(-5, 10**9), 0)
    (batch,) = displays.batches(0, view.rows)
    assert (batch["first"], batch["total"], len(batch["keys"])) == (0, 1000, ROWS_MAX)


def test_the_end_of_a_view_is_a_change() -> None:
    """A display shows the reason."""
    view = View(a={"id": 1})
    displays, (page,) = shown(view, "page")
    view.ended = "not entitled"
    (batch,) = displays.batches(1, view.rows)
    page.take(batch)
    assert (page.last["ended"], batch["cells"]) == ("not entitled", {})


MALFORMED: tuple[object, ...] = (
    None,
    [],
    {},
    {"kind": "show"},
    {"kind": "show", "display": 1},
    {"kind": "end"},
    "show",
)


@pytest.mark.parametrize("message", MALFORMED)
def test_a_malformed_message_changes_nothing(message: object) -> None:
    """Whatever is wrong with it. Neither does an answer of a display that is not known."""
    displays = Displays()
    displays.take(message, 0)
    displays.take({"kind": "answer", "display": "page", "number": 1}, 0)
    assert displays.batches(0, View().rows) == []
    assert displays.due_seconds(0) is None


def leave(name: str) -> Json:
    """Return the message of a display that leaves."""
    return {"kind": "leave", "display": name}


def test_a_widget_is_over_after_its_last_display() -> None:
    """Not at once: a cell that is run again, or moved, shows it again."""
    displays, _ = shown(View(), "page")
    assert displays.drop_silent(100) is False
    displays.take(leave("page"), 100)
    assert displays.due_seconds(101) == LEAVE_SECONDS - 1
    assert displays.drop_silent(101) is False
    assert displays.drop_silent(100 + LEAVE_SECONDS) is True


def again(displays: Displays, view: View, page: Page) -> None:
    """A cell is run again."""
    displays.take(Page("again").show(), 101)


def answered(displays: Displays, view: View, page: Page) -> None:
    """The other display answers."""
    (batch,) = displays.batches(101, view.rows)
    displays.take(page.take(batch), 101)


def silent(displays: Displays, view: View, page: Page) -> None:
    """The other display is one of a page that was reloaded."""
    assert [batch["display"] for batch in displays.batches(101, view.rows)] == [page.name]


@pytest.mark.parametrize(("then", "is_over"), [(again, False), (answered, False), (silent, True)])
def test_displays_that_are_left(then: Callable[[Displays, View, Page], None], *, is_over: bool) -> None:
    """Those that answer keep the widget open; a display that left without a word does not."""
    view = View(a={"id": 1})
    displays, (_, other) = shown(view, "page", "other")
    displays.take(leave("page"), 100)
    then(displays, view, other)
    assert displays.drop_silent(100 + LEAVE_SECONDS) is is_over
    assert displays.due_seconds(200) is None


def test_there_are_so_many_displays() -> None:
    """The one that was heard of longest ago is dropped for a new one; when it is scrolled, it asks again."""
    view = View(a={"id": 1})
    displays, pages = shown(view, *(f"page{at}" for at in range(DISPLAYS_MAX)))
    for at, page in enumerate(pages[1:], 1):
        displays.take(page.show(fresh=False), at)
    displays.take(Page("new").show(), 100)
    names = {batch["display"] for batch in displays.batches(100, view.rows)}
    assert names == {"new", *(page.name for page in pages[1:])}
