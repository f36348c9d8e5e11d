"""The topics and views of the tests of joins, and steps that change their records."""

from typing import Any

from sowline.config.topics import parse_topics
from tests.property.join_world import Joins

TOPICS = parse_topics("""
topics:
  - {name: orders, key: /id, partitions: 2}
  - {name: customers, key: [/id, /desk], partitions: 2}
views:
  - {name: tiers, from: customers, partitions: 1, grouping: [/tier], projection: [COUNT(1) AS /members]}
  - name: joined
    from: orders
    join:
      - {topic: customers, on: /customer = /id AND /desk = /desk, as: c}
      - {topic: tiers, on: /c/tier = /tier, as: t, kind: inner}
    grouping: [/c/tier, /t/members]
    projection: [COUNT(1) AS /orders, MAX(/qty) AS /largest]
  - name: labeled
    from: orders
    join: [{topic: customers, on: /customer = /id AND /desk = /desk, as: c}]
    projection: [/id, /c/tier AS /tier]
  - name: desks
    from: orders
    join: [{topic: customers, on: /desk = /desk, as: c, multiply: true}]
    grouping: [/c/tier]
    projection: [COUNT(1) AS /orders, MAX(/qty) AS /largest]
  - name: triples
    from: orders
    join:
      - {topic: customers, on: /desk = /desk, as: c, multiply: true}
      - {topic: tiers, on: /c/tier = /members, as: t, multiply: true}
    projection: [/id, /c/id AS /customer, /t/tier AS /tier]
  - name: pairs
    from: orders
    join:
      - {topic: customers, on: /desk = /desk AND /customer = /id, as: c}
      - {topic: tiers, on: /c/tier = /members, as: t, multiply: true}
      - {topic: tiers, on: /t/members = /tier, as: u, kind: inner, multiply: true}
    projection: [/id, /c/id AS /customer, /t/tier AS /tier, /u/members AS /members]
  - name: mixed
    from: orders
    join:
      - {topic: tiers, on: /qty = /members, as: t, multiply: true}
      - {topic: customers, on: /customer = /id AND /desk = /desk, as: c}
    projection: [/id, /t/tier AS /tier, /c/tier AS /own]
  - {name: names, from: customers, projection: [/id, /desk, /tier AS /label]}
  - {name: largest, from: tiers.slow, filter: /members > 1}
  - name: named
    from: orders
    join:
      - {topic: names, on: /customer = /id AND /desk = /desk, as: n}
      - {topic: largest, on: /n/label = /tier, as: t}
    projection: [/id, /n/label AS /label, /t/members AS /members]
  - name: parents
    from: orders
    partitions: 1
    join: [{topic: orders, on: /qty = /id, as: parent}]
    projection: [/id, /parent/customer AS /customer]
conflated: [{name: tiers.slow, from: tiers, interval: 1s}]
""")


def step(joins: Joins, kind: str, given: Any, more: Any) -> None:
    """Take one step, if the view has the topic."""
    if kind == "take over":
        joins.take_over(given, more)
    elif kind == "take":
        joins.take_joined(given, more)
    elif kind == "flush":
        joins.flush(also_idle=more)
    elif kind == "flush late":
        joins.flush_late()
    elif kind == "report":
        if given in joins.sides:
            joins.report(given, more)
    elif kind in joins.sides:
        joins.change(kind, given, is_deleted=more)


def order(id: int, **fields: Any) -> dict[str, Any]:
    """Return an order of a customer."""
    return {"id": id, "customer": "1", "desk": "a", "qty": 0, **fields}


def customer(id: str, tier: int) -> tuple[str, Any, Any]:
    """Return the step that writes a customer."""
    return "customers", {"id": id, "desk": "a", "tier": tier}, False
