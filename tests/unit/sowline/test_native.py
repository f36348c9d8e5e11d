"""How Python and the native core share work."""

import threading
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from sowline.config.settings import Settings
from sowline.config.topics import parse_topics
from sowline.native import RUN_MAX, panics, raise_unless_panic, share
from sowline.runtime.native import panic_metric
from sowline_materializer import service
from sowline_materializer.service import Materializer
from tests.panics import panic


@given(st.lists(st.booleans(), max_size=300))
def test_all_is_done_once_and_in_order(plain: list[bool]) -> None:
    """The native core does only what it knows; Python takes runs that double while it knows nothing."""
    done: list[tuple[str, int, int]] = []

    def native(start: int) -> int:
        stop = start
        while stop < len(plain) and plain[stop]:
            stop += 1
        done.append(("native", start, stop))
        return stop

    share(len(plain), native, lambda start, stop: done.append(("python", start, stop)))
    assert [n for _, start, stop in done for n in range(start, stop)] == list(range(len(plain)))
    assert all(one[0] != other[0] for one, other in pairwise(done))
    size = 1
    for (_, start, stop), (_, first, end) in zip(done[::2], done[1::2], strict=False):
        size = 1 if stop > start else min(2 * size, RUN_MAX)
        assert end == min(first + size, len(plain))


def test_a_panic_is_counted_and_any_other_error_is_raised() -> None:
    """The log names the reason, and the metric the number."""
    before = panics()
    with capture_logs() as logs:
        try:
            panic()
        except BaseException as error:
            raise_unless_panic(error, "orders [3]")
    assert logs == [
        {
            "event": "native core failed",
            "log_level": "error",
            "where": "orders [3]",
            "why": "index out of bounds",
        }
    ]
    assert panics() == before + 1
    assert panic_metric().samples[0].value == before + 1
    for other in (ValueError("no"), KeyboardInterrupt()):
        with pytest.raises(type(other)):
            raise_unless_panic(other, "orders [3]")
    assert panics() == before + 1


def test_a_worker_that_panics_is_followed_by_one_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It continues from the committed state."""
    pytest.importorskip("sowline_native")
    cores: list[str | None] = []
    stop = threading.Event()

    class Panicking:
        """A worker whose native core fails outside of a batch."""

        def __init__(self, settings: Settings, *_: object) -> None:
            cores.append(settings.core)

        def run(self) -> None:
            """Fail with the native core, and end without it."""
            if cores[-1] != "python":
                panic()
            stop.set()

    monkeypatch.setattr(service, "Worker", Panicking)
    monkeypatch.setattr(service, "ensure_topics", lambda *_: None)
    monkeypatch.setattr(service, "StartPhase", lambda *_: None)
    one = Materializer(Settings(data_dir=tmp_path), parse_topics("topics: [{name: t, key: /id}]"), stop)
    assert one.core == "native"
    one.run()
    assert (cores, one.core) == ([None, "python"], "python")
