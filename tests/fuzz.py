"""Odd log records by the million, applied by both cores: `python -m tests.fuzz --seconds 600 [--seed 7]`.

Whatever the native core makes of a record, Python makes too: events, refusals, checkpoints, and at the end of each
life of a partition every stored byte. A panic counts as a failure. A failure names the seed that finds it again.
"""

import argparse
import json
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from random import Random
from typing import Any

from materializer.core import applier
from sowline.config.topics import TopicDefinition
from tests.property.test_native import Sent, apply_alike, native, partition_of, state_of

BATCH = 20
BATCHES_A_LIFE = 40
TOKENS = [
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b" ", b"\n", b"\x00", b"\x1f", b"\x7f", b"\x80", b"\xff"),
    *(b"\\u0041", b"\\ud800", b"\\udfff", b"\\u00", b"\xc3\xa9", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"),
    *(b"1e5", b"-0", b"0.1", b"1e400", b"1E-99", b"-", b"00", b"9" * 30, b"true", b"truth", b"null", b"NaN"),
    *(b'"id":1', b'"id":"a"', b',"id":2', b'"":1', b'{"a":{"b":1}}', b'"a":null', b"\xef\xbb\xbf"),
]  # fmt: skip
COMMANDS = [
    None,
    None,
    b"delta_publish",
    b"delta_publish",
    b"delta_publish",
    b"publish",
    b"sow_delete",
    b"expire",
    b"x",
]
LIMITS: list[dict[str, Any]] = [
    {},
    {"partitions": 2},
    {"expiration": "1s"},
    {"expiration": "enabled", "repeat_window": "50ms"},
    {"records_max": 4, "record_bytes_max": 1024},
]


def value(chance: Random, depth: int = 3) -> Any:
    """Return a JSON value."""
    kind = chance.randrange(9 if depth else 6)
    if kind == 0:
        return chance.choice(["", "a", "é", 'q"', "b\\", "\n", "x" * 20, "\U0001f600"])
    if kind == 1:
        return chance.choice([0, 1, -1, 10**17, 2**63, 2**64, 0.5, -0.0, 1e22, 1e-7])
    if kind < 6:
        return chance.choice([None, True, False, 7])
    if kind == 6:
        return [value(chance, depth - 1) for _ in range(chance.randrange(3))]
    return {chance.choice("abcd"): value(chance, depth - 1) for _ in range(chance.randrange(4))}


def body(chance: Random) -> bytes | None:
    """Return a body; every second one is damaged somewhere."""
    fields = {
        "id": chance.choice([0, 1, 2, "0", "a", True]),
        **{name: value(chance) for name in chance.sample("abcd", 2)},
    }
    separators = chance.choice([(",", ":"), (", ", ": "), (" ,\n", "\t:")])
    text = bytearray(json.dumps(fields, ensure_ascii=chance.random() < 0.5, separators=separators).encode())
    if chance.random() < 0.5:
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(text) + 1)
            match chance.randrange(4):
                case 0:
                    text[at:at] = chance.choice(TOKENS)
                case 1:
                    del text[at : at + chance.randrange(1, 6)]
                case 2:
                    text[at : at + 1] = bytes([chance.randrange(256)])
                case _:
                    start = chance.randrange(len(text) + 1)
                    text[at:at] = text[start : start + chance.randrange(12)]
    return bytes(text) if chance.random() < 0.99 else None


def headers(chance: Random) -> list[tuple[str, bytes | None]] | None:
    """Return headers: plain ones, or some that may be odd."""
    if chance.random() < 0.6:
        return [("sow.command", b"delta_publish")] if chance.random() < 0.5 else None
    found: list[tuple[str, bytes | None]] = []
    if chance.random() < 0.7 and (command := chance.choice(COMMANDS)) is not None:
        found.append(("sow.command", command))
    if chance.random() < 0.3:
        sequence = chance.choice(
            [b"%d" % chance.randrange(20), b"%d.%d" % (chance.randrange(9), chance.randrange(3)), b"x"]
        )
        found += [
            ("sow.publisher", chance.choice([b"p", b"q", b"]}", b'"', b"p%d" % chance.randrange(12)])),
            ("sow.sequence", sequence),
        ]
    if chance.random() < 0.2:
        found.append(("sow.correlation", chance.choice([b"c", b"two words", b"\\", "é".encode(), b""])))
    if chance.random() < 0.2:
        found.append(
            (
                "sow.expiration",
                chance.choice([b"0", b"0.02", b"1", b"0.0005", b"2.5", b"9" * 12, b"1.", b"x"]),
            )
        )
    if chance.random() < 0.02:
        found.append(
            chance.choice(
                [
                    ("sow.origin", b"log:1@%d" % chance.randrange(9)),
                    ("sow.tags", b"a"),
                    ("other", None),
                    ("sow.command", None),
                ]
            )
        )
    chance.shuffle(found)
    return found or chance.choice([None, []])


def life(seed: int) -> Counter[str]:
    """Let both cores apply the same batches to a partition; raise AssertionError where they differ."""
    # Where the native core stops, Python applies one record, not a run: the native core sees all the others.
    applier.RUN_MAX = 1
    chance, counts = Random(seed), Counter[str]()
    definition = TopicDefinition.model_validate({"name": "orders", "key": "/id", **chance.choice(LIMITS)})
    (one, disk), (other, other_disk) = partition_of(definition, native), partition_of(definition, None)
    offset, now, end = 0, 1000, 0
    for _ in range(BATCHES_A_LIFE):
        sent: list[Sent] = [(body(chance), chance.randrange(-2, 30), headers(chance)) for _ in range(BATCH)]
        records = []
        for text, later, named in sent:
            now += later
            records.append(
                (offset, now, chance.choice([None, b"0", b"a"]) if text is None else None, text, named)
            )
            offset += 1
        mine = apply_alike(one, other, records, end)
        end += len(mine.events)
        counts["records"] += len(records)
        counts["native"] += sum(isinstance(change, native.Change) for change in mine.step.changes)
    assert one.core == "native", "a panic"
    for partition in (one, other):
        partition.close()
    assert state_of(disk) == state_of(other_disk), "stores"
    return counts


def lives(first: int, seconds: float) -> tuple[Counter[str], list[str]]:
    """Run lives from a seed on, for about so many seconds; return what was counted, and what failed."""
    deadline, seed, failed = time.monotonic() + seconds, first, []
    counts = Counter[str]()
    while time.monotonic() < deadline:
        try:
            counts += life(seed)
        except AssertionError as difference:
            failed.append(f"python -m tests.fuzz --seconds 0 --seed {seed}: {str(difference)[:2000]}")
        seed += 1
    return counts, failed


def main() -> int:
    """Run lives on all cores, and print what was counted; the exit code is 1 if the cores differ anywhere."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long; 0 runs one seed")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9, help="the first seed")
    given = parser.parse_args()
    if not given.seconds:
        print(life(given.seed))
        return 0
    cores = os.cpu_count() or 1
    with ProcessPoolExecutor(cores) as pool:
        runs = [pool.submit(lives, given.seed + number * 10**9, given.seconds) for number in range(cores)]
        found = [run.result() for run in runs]
    counts = sum((counts for counts, _ in found), Counter[str]())
    failed = [line for _, lines in found for line in lines]
    print(
        *failed,
        f"{counts['records']:,} log records, {counts['native']:,} changes by the native core, {len(failed)} failed",
        sep="\n",
    )
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
