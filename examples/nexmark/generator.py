"""The input of Nexmark: persons, auctions and bids in their usual proportion, the same for the same seed.

The first of 50 events is a new person, three are new auctions, and the others are bids. Each topic counts its events
in `id`, because Nexmark's bids have no key.
"""

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

ROUND = ("persons", *["auctions"] * 3, *["bids"] * 46)
"""The topics of 50 events."""

FIRST_ID = 1000
FIRST_TIME = 1_436_918_400_000
EVENT_MS = 10
AUCTION_MS_MAX = 20_000
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = ("Phoenix", "Los Angeles", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Cheyenne")
NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
CHANNELS = ("apple", "google", "facebook", "baidu")
CATEGORIES = range(10, 15)
EXTRA_CHARACTERS = 20

Body = dict[str, Any]


class Event(NamedTuple):
    """A record for one of the three topics."""

    topic: str
    body: Body


def events(count: int, seed: int) -> Iterator[Event]:
    """Yield this many events, in the order of their times."""
    dice = random.Random(seed)
    ends = dict.fromkeys(ROUND, FIRST_ID)
    for number in range(count):
        topic = ROUND[number % len(ROUND)]
        time = FIRST_TIME + number * EVENT_MS
        if topic == "persons":
            fields = _person(dice)
        elif topic == "auctions":
            fields = _auction(dice, ends, time)
        else:
            fields = _bid(dice, ends)
        yield Event(topic, {"id": ends[topic], "dateTime": time, **fields})
        ends[topic] += 1


def _person(dice: random.Random) -> Body:
    name = dice.choice(NAMES)
    email = f"{name.lower()}@example.com"
    return {"name": name, "emailAddress": email, "city": dice.choice(CITIES), "state": dice.choice(STATES)}


def _auction(dice: random.Random, ends: dict[str, int], time: int) -> Body:
    return {
        "itemName": f"item {dice.randrange(1000)}",
        "initialBid": _price(dice),
        "reserve": _price(dice),
        "expires": time + dice.randrange(1, AUCTION_MS_MAX),
        "seller": dice.randrange(FIRST_ID, ends["persons"]),
        "category": dice.choice(CATEGORIES),
    }


def _bid(dice: random.Random, ends: dict[str, int]) -> Body:
    return {
        "auction": dice.randrange(FIRST_ID, ends["auctions"]),
        "bidder": dice.randrange(FIRST_ID, ends["persons"]),
        "price": _price(dice),
        "channel": dice.choice(CHANNELS),
        "extra": "x" * dice.randrange(1, EXTRA_CHARACTERS),
    }


def _price(dice: random.Random) -> int:
    """Return an amount in cents. Small ones are as frequent as large ones, on a logarithmic scale."""
    return round(10 ** dice.uniform(2, 8))
