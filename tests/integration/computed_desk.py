"""A desk of orders with views, joins and conflated topics, each compared with a plain recomputation."""

import json
import random
from collections import defaultdict
from typing import Any

import pytest

from sowline.client.client import Client
from sowline_materializer.admin.commands import operate
from tests.integration.services import Service, System, http_text

STATUSES = ("open", "working", "done")


class Desk:
    """Orders, a view of exposures by customer and region, one of large exposures, and one of single orders."""

    def __init__(self, made: System, name: str, query: Service) -> None:
        self.made = made
        self.orders = name
        self.exposure = f"{name}-exposure"
        self.large = f"{name}-large"
        self.working = f"{name}-working"
        self.slow = f"{name}-slow"
        self.customers = f"{name}-customers"
        self.tiers = f"{name}-tiers"
        self.known = f"{name}-known"
        self.gold = f"{name}-gold"
        self.pairs = f"{name}-pairs"
        self.held_customers: dict[str, dict[str, Any]] = {}
        self.query = query
        self.views: list[Service] = []
        self.materializers: list[Service] = []
        self.held: dict[int, dict[str, Any]] = {}
        """What all tests have left: random orders below 200, and others of which each test has its own."""

    def write(self, dice: random.Random, commands: int) -> None:
        """Publish, update and delete random orders."""
        publisher = self.made.publisher()
        for _ in range(commands):
            id = dice.randrange(200)
            if id in self.held and dice.random() < 0.2:
                publisher.sow_delete(self.orders, data={"id": id})
                del self.held[id]
                continue
            order = {
                "id": id,
                "customer": dice.choice(["acme", "bolt", None, 7]),
                "region": dice.choice(["eu", "us"]),
                "status": dice.choice(STATUSES),
                "qty": dice.choice([dice.randrange(-5, 100), dice.random() * 10]),
            }
            publisher.publish(self.orders, order)
            self.held[id] = order
        publisher.flush()

    def write_customers(self, dice: random.Random, commands: int) -> None:
        """Publish and delete random customers."""
        publisher = self.made.publisher()
        for _ in range(commands):
            id = dice.choice(["acme", "bolt", "7", "nobody"])
            if id in self.held_customers and dice.random() < 0.3:
                publisher.sow_delete(self.customers, data={"id": id})
                del self.held_customers[id]
                continue
            customer = {"id": id, "tier": dice.choice(["gold", "tin", "eu", "us"])}
            publisher.publish(self.customers, customer)
            self.held_customers[id] = customer
        publisher.flush()

    def described(self, topic: str) -> dict[str, Any]:
        """Return what the service answers about a topic."""
        topics = json.loads(http_text(f"{self.query.url}/v1/topics"))["topics"]
        (found,) = (one for one in topics if one["name"] == topic)
        return dict(found)

    def customer_of(self, order: dict[str, Any]) -> dict[str, Any] | None:
        """Return the customer whose key text is that of an order's field; NULL is none."""
        return None if order["customer"] is None else self.held_customers.get(str(order["customer"]))

    def expected_tiers(self) -> list[dict[str, Any]]:
        """Return the sums by the tier of the customer, NULL without one."""
        tiers: dict[Any, int] = defaultdict(int)
        for order in self.held.values():
            customer = self.customer_of(order)
            tiers[None if customer is None else customer["tier"]] += 1
        return [{"c": {"tier": tier}, "orders": orders} for tier, orders in tiers.items()]

    def expected_known(self) -> list[dict[str, Any]]:
        """Return the orders whose customer exists, with its tier."""
        found = [(order, self.customer_of(order)) for order in self.held.values()]
        return [
            {"id": order["id"], "tier": customer["tier"]} for order, customer in found if customer is not None
        ]

    def expected_pairs(self) -> list[dict[str, Any]]:
        """Return each order with each customer whose tier is its region."""
        return [
            {"id": order["id"], "c": customer["id"]}
            for order in self.held.values()
            for customer in self.held_customers.values()
            if customer["tier"] == order["region"]
        ]

    def expected(self) -> list[dict[str, Any]]:
        """Return the groups of the orders that count, computed from all of them."""
        groups: dict[tuple[Any, Any], list[Any]] = defaultdict(list)
        for order in self.held.values():
            if order["status"] != "done":
                groups[order["customer"], order["region"]].append(order["qty"])
        return [
            {
                "customer": customer,
                "region": region,
                "orders": len(quantities),
                "largest": max(quantities),
                "smallest": min(quantities),
            }
            for (customer, region), quantities in groups.items()
            if len(quantities) > 1
        ]


def definitions(name: str) -> list[dict[str, Any]]:
    """Return the views over the orders."""
    return [
        {
            "name": f"{name}-exposure",
            "from": name,
            "partitions": 3,
            "filter": "/status IN ('open', 'working')",
            "grouping": ["/customer", "/region"],
            "projection": ["COUNT(1) AS /orders", "MAX(/qty) AS /largest", "MIN(/qty) AS /smallest"],
            "having": "/orders > 1",
            "history": {"window": "1h"},
        },
        {"name": f"{name}-large", "from": f"{name}-exposure", "filter": "/largest > 50"},
        {
            "name": f"{name}-working",
            "from": name,
            "filter": "/status = 'working'",
            "projection": ["/id", "/qty * 2 AS /double"],
        },
        {
            "name": f"{name}-tiers",
            "from": name,
            "join": [{"topic": f"{name}-customers", "on": "/customer = /id", "as": "c"}],
            "grouping": ["/c/tier"],
            "projection": ["COUNT(1) AS /orders"],
        },
        {
            "name": f"{name}-known",
            "from": name,
            "join": [{"topic": f"{name}-customers", "on": "/customer = /id", "as": "c", "kind": "inner"}],
            "projection": ["/id", "/c/tier AS /tier"],
        },
        {
            "name": f"{name}-pairs",
            "from": name,
            "partitions": 3,
            "join": [
                {
                    "topic": f"{name}-customers",
                    "on": "/region = /tier",
                    "as": "c",
                    "kind": "inner",
                    "multiply": True,
                }
            ],
            "projection": ["/id", "/c/id AS /c"],
        },
        {"name": f"{name}-gold", "from": f"{name}-known", "filter": "/tier = 'gold'"},
    ]


def rows(client: Client, topic: str, **query: Any) -> list[dict[str, Any]]:
    """Return the bodies that a query finds, in an order that does not depend on their keys."""
    found = [message.data for message in client.sow(topic, **query) if message.command == "sow"]
    return in_order(found)


def bookmark_of(client: Client, topic: str, records: int, **query: Any) -> str | None:
    """Return the bookmark of a query if it finds so many records."""
    begun, *found = client.sow(topic, **query)
    return begun.bookmark if sum(message.command == "sow" for message in found) == records else None


def in_order(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return bodies in an order that depends on their content."""
    return sorted(bodies, key=str)


def operated(
    made: System, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str]:
    """Run a command on the state of a topic; return its exit code and what it has written."""
    settings = {"KAFKA": made.kafka, "CONFIG": made.config, "GROUP": made.group}
    for name, value in {**settings, "DATA_DIR": made.directory / "sow"}.items():
        monkeypatch.setenv(f"SOWLINE_{name}", str(value))
    capfd.readouterr()
    with pytest.raises(SystemExit) as ended:
        operate.main(list(arguments), prog_name="sowline")
    out, err = capfd.readouterr()
    return int(ended.value.code or 0), out + err
