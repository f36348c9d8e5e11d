"""Entitlements: which one decides, what they refuse, and what they add up to."""

import re

import pytest
from pydantic import ValidationError

from sowline.errors import SowlineError
from sowline.language.filter import ALL, Metadata, compile_filter
from sowline.model.path import parse_path
from sowline.serving.authorization.entitlements import (
    EVERYTHING,
    Entitlement,
    Rights,
    Role,
    both,
    check_fields,
    chosen_topic,
    chosen_topics,
    rights_of,
    to_read,
    to_write,
    together,
)

ROLES = {
    "trader": Role.model_validate(
        {
            "read": [
                {"topics": "orders", "filter": "/desk = 'NY'"},
                {"topics": "^orders.*", "select": "[-/,+/id]"},
            ],
            "write": [{"topics": "orders", "filter": "/desk = 'NY'"}],
        }
    ),
    "risk": Role.model_validate({"read": [{"topics": "^.*"}], "admin": "true"}),
}


def test_the_first_that_names_a_topic_decides() -> None:
    """In a role as listed, of roles as declared, however somebody's roles are ordered."""
    trader = rights_of(ROLES, ["trader"])
    assert trader.read.of("orders").filter == compile_filter("/desk='NY'")
    assert trader.read.of("orders/eu").select is not None
    assert rights_of(ROLES, ["risk", "trader"]).read.of("orders") == trader.read.of("orders")
    assert rights_of(ROLES, ["risk", "trader"]).read.of("quotes").is_whole


def test_what_none_names_is_refused() -> None:
    """Whether it exists is not told."""
    trader = rights_of(ROLES, ["trader"])
    with pytest.raises(SowlineError, match=r"may read \(orders, \^orders\.\*\), got 'quotes'"):
        trader.read.of("quotes")
    with pytest.raises(SowlineError, match=r"may write to \(orders\), got 'orders/eu'"):
        trader.write.of("orders/eu")
    assert ("quotes" in trader.read, "orders/eu" in trader.write, "orders" in trader.write) == (
        False,
        False,
        True,
    )
    with pytest.raises(SowlineError, match=r"\(none\)"):
        Rights().read.of("orders")


def test_roles_that_are_not_declared_count_nothing() -> None:
    """A token may carry roles of other systems."""
    assert rights_of(ROLES, ["other"]) == Rights()
    assert rights_of(ROLES, ["other", "risk"]).is_admin


def test_digests_are_those_of_the_version_before() -> None:
    """Other services may still have that, and clients keep their records when they move from one to the other."""
    assert (Rights().digest, EVERYTHING.digest) == ("8e967d909c37eb0e", "6625ce72f641d163")


def test_equal_digests_are_equal_rights() -> None:
    """What differs in anything differs in its digest."""
    digests = {rights_of(ROLES, held).digest for held in ([], ["trader"], ["risk"], ["trader", "risk"])}
    assert len(digests | {EVERYTHING.digest}) == 5
    read, write = Rights(to_read(Entitlement("a"))), Rights(write=to_write(Entitlement("a")))
    assert read.digest != write.digest
    assert rights_of(ROLES, ["trader"]).digest == rights_of(ROLES, ["trader", "other"]).digest


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"topics": "^("}, "pattern in RE2's syntax"),
        ({"topics": ""}, "at least 1"),
        ({"topics": "orders.*"}, r"a pattern begins with \^"),
        ({"topics": "a", "filter": "/a ="}, "expected"),
        ({"topics": "a", "filter": "LAST_UPDATED() > 1"}, "LAST_UPDATED"),
        ({"topics": "a", "filter": "SOW_KEY() = '1'"}, "SOW_KEY"),
        ({"topics": "a", "filter": "CONDITION('intrinsic(\"~deleted\":false)')"}, "a condition"),
        ({"topics": "a", "select": "[x]"}, "expected"),
        ({"topics": "a", "fields": "x"}, "not permitted"),
    ],
)
def test_what_is_no_entitlement(wrong: dict[str, str], reason: str) -> None:
    """It is refused where it is declared."""
    with pytest.raises(ValidationError, match=reason):
        Role.model_validate({"read": [wrong]})


def test_several_topics_in_one_request() -> None:
    """Each topic's filter is for its own records; other fields of each can't be."""
    trader = rights_of(ROLES, ["trader"])
    with pytest.raises(SowlineError, match="the same fields, got orders, orders/eu"):
        together(trader.read, ["orders", "orders/eu"])
    desks = to_read(
        Entitlement("a", compile_filter("/x = 1")),
        Entitlement("b", compile_filter("/y = 1")),
        Entitlement("c"),
    )
    filter = together(desks, ["a", "b", "c"]).filter
    seen = {
        (topic, field): filter.matches_about({field: 1}, Metadata(topic=topic))
        for topic in "abc"
        for field in "xy"
    }
    assert seen == {
        ("a", "x"): True,
        ("a", "y"): False,
        ("b", "x"): False,
        ("b", "y"): True,
        ("c", "x"): True,
        ("c", "y"): True,
    }
    assert together(desks, ["c"]) == Entitlement("c")


def test_fields_that_may_not_be_read_may_not_be_asked_by() -> None:
    """Anyone who can filter or sort by a field, or count by it, knows what it holds."""
    eu = rights_of(ROLES, ["trader"]).read.of("orders/eu")
    price = parse_path("/price")
    check_fields(eu, compile_filter("/id > 1"), [parse_path("/id")])
    check_fields(Entitlement("a"), compile_filter("/price > 1"), [price])
    for filter, paths in [("/price > 1", []), ("/id = 1 OR /price IS NULL", []), ("", [price])]:
        with pytest.raises(SowlineError, match=r"\[-/,\+/id\]\), got /price"):
            check_fields(eu, compile_filter(filter), paths)
    with pytest.raises(SowlineError, match="got a condition or MESSAGE_SIZE"):
        check_fields(eu, compile_filter("CONDITION('{..,\"id\":1}')"))


def test_both_filters() -> None:
    """One that asks for nothing adds nothing."""
    one, other = compile_filter("/a = 1"), compile_filter("/b = 1")
    assert both(one, ALL) == one == both(ALL, one)
    assert both(one, one) is one
    assert both(one, other).matches({"a": 1, "b": 1})
    assert not both(one, other).matches({"a": 1})


NAMES = ["orders", "orders/eu", "quotes"]


@pytest.mark.parametrize(
    ("name", "topics"),
    [("orders", ["orders"]), ("^orders", ["orders"]), ("^orders.*", ["orders", "orders/eu"])],
)
def test_a_request_means_the_topics_that_it_names(name: str, topics: list[str]) -> None:
    """All topics that a pattern matches, if the user may read them all."""
    assert chosen_topics(name, NAMES, rights_of(ROLES, ["trader"]).read) == topics


@pytest.mark.parametrize(
    ("name", "reason", "message"),
    [
        ("quotes", "not entitled", "got 'quotes'"),
        ("gone", "not entitled", "got 'gone'"),
        ("orders.gone", "invalid topic", "expected a topic (orders, orders/eu), got 'orders.gone'"),
        ("^none", "invalid topic", "expected a topic (orders, orders/eu), got '^none'"),
        ("^.*", "not entitled", "of topics that you may read (orders, orders/eu), got ^.*"),
        ("x" * 5000, "invalid topic", "at most 4096 characters, got 5000"),
        ("^" + "x" * 5000, "bad regex topic", "at most 4096 characters, got 5001"),
    ],
)
def test_a_request_for_other_topics_is_refused(name: str, reason: str, message: str) -> None:
    """An error does not reveal topics that the user may not read."""
    with pytest.raises(SowlineError, match=re.escape(message)) as error:
        chosen_topics(name, NAMES, rights_of(ROLES, ["trader"]).read)
    assert error.value.reason == reason


def test_some_requests_are_for_one_topic() -> None:
    """A pattern is refused there."""
    read = rights_of(ROLES, ["trader"]).read
    assert chosen_topic("orders", NAMES, read) == "orders"
    with pytest.raises(SowlineError) as error:
        chosen_topic("^orders", NAMES, read)
    assert error.value.reason == "regex topic not supported"


def test_some_reads_need_all_of_a_topic() -> None:
    """The error has the reason for which they do."""
    read = rights_of(ROLES, ["risk"]).read
    read.require_whole("quotes", "a dump has all records")
    for mine, topic in ((rights_of(ROLES, ["trader"]).read, "orders"), (Rights().read, "orders")):
        with pytest.raises(
            SowlineError, match="expected the right to read all of orders, got less: a dump has all records"
        ):
            mine.require_whole(topic, "a dump has all records")


def test_entitlements_are_values() -> None:
    """Equal ones are equal rights, to read or to write."""
    one, other = to_read(Entitlement("orders")), to_read(Entitlement("orders"))
    assert (one == other, hash(one) == hash(other), one == to_write(Entitlement("orders"))) == (
        True,
        True,
        False,
    )
    assert repr(one) == "Entitlements('read', [('orders', 'TRUE', '')])"
    assert (list(one), bool(one), bool(to_read())) == ([Entitlement("orders")], True, False)


def test_agents_write_by_a_right_that_counts() -> None:
    """No role has it unless it says so; with it, the rights are others."""
    role = {"write": [{"topics": "orders"}]}
    plain, with_it = Role.model_validate(role), Role.model_validate(role | {"agent_writes": True})
    without, allowed = rights_of({"r": plain}, ["r"]), rights_of({"r": with_it}, ["r"])
    assert (without.allows_agent_writes, allowed.allows_agent_writes) == (False, True)
    assert without.digest != allowed.digest
    assert not EVERYTHING.allows_agent_writes
