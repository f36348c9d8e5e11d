"""What is known of a record beside its document, and the filters that ask for it."""

import pickle
import threading

import pytest

from sowline.language.emodb import Intrinsics
from sowline.language.filter import ALL, UNKNOWN, Filter, Metadata, compile_expression, compile_filter
from sowline.language.filter.envelope import needs_about
from sowline.language.filter.functions import ALIASES, FUNCTIONS
from sowline.language.filter.parse import parse

FACTS = Metadata(
    sow_key="o-1",
    topic="orders",
    bookmark="0|7|",
    size=120,
    updated=100.5,
    correlation="c",
    last_read=200.0,
    instance="a-0",
    group="a",
)
MESSAGE_FUNCTIONS = sorted(name for name, function in FUNCTIONS.items() if function.fact)


@pytest.mark.parametrize("name", MESSAGE_FUNCTIONS)
def test_a_fact_is_null_until_it_is_known(name: str) -> None:
    """A message function is NULL where there is but a document, and where the fact isn't known."""
    expression = compile_expression(f"{name}()")
    assert expression.needs_about
    assert expression.value({}) is None
    assert expression.value_about({}, UNKNOWN) is None
    assert expression.value_about({}, FACTS) is not None
    assert compile_filter(f"{name}() IS NULL").matches({})


def test_each_fact_has_its_function() -> None:
    """Every message function gives a member of About or a hash of one; the others are for conditions."""
    facts = {FUNCTIONS[name].fact for name in MESSAGE_FUNCTIONS}
    assert facts == {*Metadata._fields, "sow_key_hash"} - {"intrinsics", "tags"}


@pytest.mark.parametrize(
    ("condition", "needs", "is_met"),
    [
        ('{..,"a":1}', False, True),
        ('{..,"a":1.0}', False, False),
        ('intrinsic("~signature":"5f")', True, True),
        ('intrinsic("~id":"o-1")', True, False),
        ('{..,"~tags":contains("new")}', True, True),
        ('{..,"~tags":contains("old")}', True, False),
        ('{..,"~tags":~}', True, False),
    ],
)
def test_a_condition_is_asked_of_the_document_and_its_account(
    condition: str, needs: bool, is_met: bool
) -> None:
    """It is met or it isn't, never NULL; only what looks beside the document needs to be told of that."""
    about = FACTS._replace(intrinsics=Intrinsics(id="k", signature="5f"), tags=("new",))
    meets = compile_filter(f"/a = 1 AND CONDITION('{condition}')")
    fails = compile_filter(f"NOT condition('{condition}')")
    assert meets.needs_about is needs
    assert (meets.matches_about({"a": 1}, about), fails.matches_about({"a": 1}, about)) == (
        is_met,
        not is_met,
    )
    assert compile_filter(meets.text) == meets == pickle.loads(pickle.dumps(meets))


def test_a_condition_of_a_record_that_is_no_document() -> None:
    """Its id is the SOW key, its table the topic; the rest isn't known."""
    ask = compile_filter("""CONDITION('and(intrinsic("~id":"o-1"),intrinsic("~table":"orders"))')""")
    assert ask.matches_about({}, FACTS)
    assert compile_filter("""CONDITION('intrinsic("~signature":null)')""").matches_about({}, FACTS)


def test_a_filter_of_facts_and_fields() -> None:
    """A filter may ask for both, under any operator; a field of a fact's name is still the document's."""
    filter_ = compile_filter(
        "/topic = 'mine' AND TOPIC_NAME() = 'orders' AND MESSAGE_SIZE() BETWEEN 100 AND /legs[0]/max"
        " AND SOW_KEY() LIKE '^o' AND NOT LAST_UPDATED() > 1000 AND [/sow_key] IS NULL"
    )
    document = {"topic": "mine", "legs": [{"max": 200}]}
    assert filter_.matches_about(document, FACTS)
    assert not filter_.matches_about(document, FACTS._replace(size=300))
    assert not filter_.matches(document)
    assert document == {"topic": "mine", "legs": [{"max": 200}]}
    assert {str(path) for path in filter_.paths} == {"/topic", "/legs[0]/max", "/sow_key"}


def test_a_filter_that_needs_no_facts_takes_them_all_the_same() -> None:
    """`matches_about` is there for every filter; where no fact is asked for it is `matches`."""
    filter_ = compile_filter("/a = 1")
    assert not filter_.needs_about
    assert filter_.matches_about({"a": 1}, FACTS)
    assert not filter_.matches_about({"a": 2}, UNKNOWN)
    assert ALL.matches_about({}, UNKNOWN)


@pytest.mark.parametrize(("alias", "name"), sorted(ALIASES.items()))
def test_aliases_are_read_and_never_printed(alias: str, name: str) -> None:
    """Another name of a function gives the same filter, with the same text."""
    assert parse(f"{alias.lower()}()") == parse(f"{name}()")
    assert str(compile_filter(f"{alias}() = 'a'")) == f"{name}() = 'a'"
    assert alias not in FUNCTIONS


def test_a_filter_of_facts_travels() -> None:
    """Pickled and read back, it still knows what to ask for."""
    again = pickle.loads(pickle.dumps(compile_filter("SOW_KEY() = 'o-1'")))
    assert isinstance(again, Filter)
    assert again.matches_about({}, FACTS)


def test_threads_share_a_filter() -> None:
    """The facts of one call are never seen by another, whatever thread it is in."""
    filter_ = compile_filter("SOW_KEY() = /key AND CONCAT(SOW_KEY(), '') = /key")
    wrong: list[int] = []

    def work(number: int) -> None:
        about, document = Metadata(sow_key=f"k{number}"), {"key": f"k{number}"}
        wrong.extend(number for _ in range(500) if not filter_.matches_about(document, about))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_functions_of_others_ask_for_nothing() -> None:
    """A tree may be asked before its aggregates are taken out of it."""
    assert needs_about(parse("SUM(/a) + MESSAGE_SIZE()"))
    assert not needs_about(parse("SUM(/a)"))
