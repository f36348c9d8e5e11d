"""The records that queries are measured on: orders of about 0.9 KB, the same every time."""

import random

from sowline.model.body import trimmed_json

CONDITION = "/status = 'open' AND /qty > 300 AND /price < 60 AND /ticker < 'T150' AND /side = 'B'"


NOTES_CHARS = 800


def bodies_of(records: int, notes_chars: int = NOTES_CHARS) -> list[bytes]:
    """The records, the same every time."""
    chance = random.Random(7)
    return [_body(number, chance, notes_chars) for number in range(records)]


def _body(number: int, chance: random.Random, notes_chars: int) -> bytes:
    order = {
        "order": number,
        "customer": f"customer-{chance.randrange(1000):04d}",
        "status": chance.choice(("open", "filled", "pending", "cancelled")),
        "ticker": f"T{chance.randrange(200):03d}",
        "qty": chance.randint(1, 1000),
        "price": round(chance.random() * 100, 4),
        "side": chance.choice("BS"),
        "notes": "n" * notes_chars,
    }
    return trimmed_json(order)
