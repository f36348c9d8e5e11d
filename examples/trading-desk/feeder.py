"""Publishes orders, and then changes them at a steady rate, until it is stopped."""

import argparse
import contextlib
import random
import time
from typing import Any

from sowline import Client

TOPIC = "orders"
SYMBOLS = ("AAPL", "AMZN", "GOOG", "IBM", "META", "MSFT", "NVDA", "TSLA")
TICK_SECONDS = 0.02


def order(number: int) -> dict[str, Any]:
    """Return a new order."""
    qty, price = random.randrange(100, 10_000, 100), round(random.uniform(20, 400), 2)
    return {
        "id": number,
        "symbol": random.choice(SYMBOLS),
        "side": random.choice(("buy", "sell")),
        "status": "open",
        "qty": qty,
        "filled": 0,
        "limit": price,
        "price": price,
        "worth": round(qty * price, 2),
    }


def change(held: dict[str, Any]) -> dict[str, Any]:
    """Change an order, and return the fields to merge: another price, and at times a fill."""
    changed: dict[str, Any] = {"price": round(max(1.0, held["price"] * random.uniform(0.995, 1.005)), 2)}
    changed["worth"] = round(held["qty"] * changed["price"], 2)
    if random.random() < 0.1:
        filled = min(held["qty"], held["filled"] + 100)
        is_filled = filled == held["qty"]
        # A filled order begins again, so that the desk stays busy.
        changed |= {"filled": 0 if is_filled else filled, "status": "filled" if is_filled else "working"}
    held.update(changed)
    return {"id": held["id"], **changed}


def feed(url: str, orders: int, rate: int) -> None:
    """Publish this many `orders`, and then change `rate` of them a second."""
    held = [order(number) for number in range(1, orders + 1)]
    with Client(url) as client:
        for each in held:
            client.publish(TOPIC, each)
        client.flush()
        print(f"published {orders} orders; changing {rate} a second", flush=True)
        began, sent = time.monotonic(), 0
        while True:
            due = int((time.monotonic() - began) * rate)
            for _ in range(due - sent):
                client.delta_publish(TOPIC, change(random.choice(held)))
            sent = due
            time.sleep(TICK_SECONDS)


def main() -> None:
    """Read the arguments, and feed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="the query service")
    parser.add_argument("--orders", type=int, default=5000)
    parser.add_argument("--rate", type=int, default=2000, help="changes a second")
    given = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        feed(given.url, given.orders, given.rate)


if __name__ == "__main__":
    main()
