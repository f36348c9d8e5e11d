"""What `sowline doctor` finds in an access file: views that show what a role may not read."""

import re

import pytest

from sowline.cli.doctor.access_checks import access_findings
from sowline.config.topics import parse_topics
from sowline.serving.authorization.access_file import parse_access
from tests.unit.sowline.cli.doctor.sound_kafka import VIEWS


def shown_to(*rights: str) -> list[tuple[str, str]]:
    """Return what the doctor finds of a role with these rights to read, by view."""
    access = parse_access(f"roles: {{desk: {{read: [{', '.join(rights)}]}}}}")
    ok, *found = access_findings("access.yaml", access, VIEWS)
    assert (ok.code, ok.found) == ("access", "1 role")
    assert {(one.code, one.severity, one.where) for one in found} <= {("view_rights", "warning", "role desk")}
    return [(re.findall(r"view (\w+)", one.expected)[0], one.found) for one in found]


NY = "filter: \"/desk = 'NY'\""
ONLY_NY = "only records with /desk = 'NY'"


@pytest.mark.parametrize(
    ("rights", "found"),
    [
        (["{topics: '^.*'}"], []),
        (["{topics: orders}"], []),
        (["{topics: totals}"], [("totals", "no right to read orders")]),
        # A filter on what records are grouped by limits groups, unless a field of another value has its name.
        ([f"{{topics: '^.*', {NY}}}"], [("renamed", ONLY_NY)]),
        (["{topics: totals}", f"{{topics: orders, {NY}}}"], [("totals", ONLY_NY)]),
        # A view that has the filter itself has no other records.
        (["{topics: open}", "{topics: orders, filter: \"/status = 'open'\"}"], []),
        (["{topics: open}", f"{{topics: orders, {NY}}}"], [("open", ONLY_NY)]),
        # Records of a group have many statuses, those of an ungrouped view one; one view does not show it.
        (
            ["{topics: '^.*', filter: \"/status = 'open'\"}"],
            [(name, "only records with /status = 'open'") for name in ("totals", "brief", "renamed")],
        ),
        # Fields that a view shows, or computes others of.
        (
            ["{topics: '^.*', select: '[-/,+/desk,+/id,+/status]'}"],
            [(name, "only the fields [-/,+/desk,+/id,+/status]") for name in ("totals", "brief", "renamed")],
        ),
        (
            ["{topics: '^.*', select: '[-/,+/desk,+/id,+/qty]'}"],
            [("open", "only the fields [-/,+/desk,+/id,+/qty]")],
        ),
        (
            ["{topics: '^(totals|open)'}", "{topics: orders, select: '[-/cost]'}"],
            [("open", "only the fields [-/cost]")],
        ),
    ],
)
def test_a_view_that_shows_what_a_role_may_not_read(rights: list[str], found: list[tuple[str, str]]) -> None:
    """Rights to a view are its own, so that may be intended: it is a warning."""
    assert shown_to(*rights) == found


JOINED = parse_topics(
    """
topics: [{name: orders, key: /id}, {name: customers, key: /id}]
views:
  - {name: known, from: orders, join: [{topic: customers, on: /customer = /id, as: c}]}
conflated:
  - {name: slow, from: orders, interval: 1s}
"""
)


@pytest.mark.parametrize(
    ("rights", "found"),
    [
        (["{topics: '^.*'}"], []),
        (["{topics: orders}", "{topics: known}"], ["no right to read customers"]),
        (["{topics: customers}", "{topics: slow}"], ["no right to read orders"]),
        (
            ["{topics: '^(orders|known)'}", "{topics: customers, filter: /vip = 1}"],
            ["only records with /vip = 1"],
        ),
        (
            ["{topics: '^(orders|known)'}", "{topics: customers, select: '[-/cost]'}"],
            ["only the fields [-/cost]"],
        ),
    ],
)
def test_a_view_that_joins_what_a_role_may_not_read(rights: list[str], found: list[str]) -> None:
    """Joined topics count like the source, and conflated topics like views."""
    access = parse_access(f"roles: {{desk: {{read: [{', '.join(rights)}]}}}}")
    _, *others = access_findings("access.yaml", access, JOINED)
    assert [one.found for one in others] == found
