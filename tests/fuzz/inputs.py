"""Odd bodies, headers and log records, drawn by chance."""

import json
from random import Random
from typing import Any

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
    text = json.dumps(fields, ensure_ascii=chance.random() < 0.5, separators=separators).encode()
    if chance.random() < 0.5:
        text = damaged(chance, text)
    return text if chance.random() < 0.99 else None


def damaged(chance: Random, whole: bytes) -> bytes:
    """Return a text with one to three odd pieces in it, or pieces that are missing or come again."""
    text = bytearray(whole)
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
    return bytes(text)


def change_header(chance: Random) -> bytes:
    """Return the header `sow` of a change, as Sowline writes it; most have only what every change has."""
    offset, after = chance.randrange(10**6), chance.choice(("-1", "7", "1/7", "7.2", "0/-1"))
    op = chance.choice(("publish", "publish", "delta_publish", "again", "expire"))
    text = f'{{"position":"{offset}","after":"{after}","op":"{op}","time":{chance.randrange(10**13)}'
    more = (
        ',"era":1',
        ',"last":false',
        ',"expires":12',
        ',"correlation":"c d"',
        ',"numbers":{"p":[1,0,5],"q":[2,1,6]}',
        ',"emitted_in":3',
    )
    return f"{text}{''.join(one for one in more if chance.random() < 0.2)}}}".encode()


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
