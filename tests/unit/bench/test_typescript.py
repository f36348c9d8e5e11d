"""The benchmark of the TypeScript client: what its readers have to get, and its table."""

from bench.typescript import DELTAS, RAW, READERS, WHOLE, Case, Figure, Recording, report


def test_what_each_reader_gets() -> None:
    """Raw frames hold acknowledgements and whole batches of records; a callback and a view get single records."""
    batches = b'[{"command":"ack"},{"command":"group_begin"}]', b'{"command":"sow","records":[{},{}]}'
    changes = (
        b'{"command":"group_end"}',
        b'[{"command":"publish"},{"command":"publish"},{"command":"publish"}]',
    )
    recording = Recording(
        ([b'{"command":"ack"}'], [*batches, *changes]), records=2, changes=3, last="orders:0@9"
    )
    assert recording.frames == 5
    assert recording.got() == {
        "raw": [8, "orders:0@9"],
        "callback": [7, "orders:0@9"],
        "view": [2, "orders:0@9"],
        "listener": [5, "orders:0@9"],
    }
    assert {reader.name for reader in READERS} == set(recording.got())


def test_the_table_has_medians_and_ratios() -> None:
    """A ratio is to the raw frames of the same kind in the same engine."""
    callback = READERS[1]
    figures = {
        Case(WHOLE, "Node", RAW): [Figure(1e6, 1.0), Figure(2e6, 2.0), Figure(9e6, 9.0)],
        Case(WHOLE, "Node", callback): [Figure(5e5, 3.0)],
        Case(WHOLE, "Chromium", RAW): [Figure(1e6, 4.0)],
        Case(WHOLE, "Chromium", callback): [Figure(5e5, 6.0)],
        Case(DELTAS, "Node", RAW): [Figure(3e6, 0.5)],
        Case(DELTAS, "Chromium", RAW): [Figure(3e6, 0.5)],
    }
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in report(figures).splitlines()]
    units = ["messages/s", "µs of CPU per message", "ratio"]
    assert rows[0] == ["", *(f"{engine}: {unit}" for engine in ("Node", "Chromium") for unit in units)]
    assert rows[2:] == [
        [f"{WHOLE}: {RAW.label}", "2,000,000", "2.0", "1.0", "1,000,000", "4.0", "1.0"],
        [f"{WHOLE}: {callback.label}", "500,000", "3.0", "1.5", "500,000", "6.0", "1.5"],
        [f"{DELTAS}: {RAW.label}", "3,000,000", "0.5", "1.0", "3,000,000", "0.5", "1.0"],
    ]
