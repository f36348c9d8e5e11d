"""The comparison of two `topics.yaml`: the effect of each difference, and what services run by afterwards."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from sowline.config.declared_topic import DeclaredTopic
from sowline.config.definition_changes import (
    FIELD_EFFECTS,
    ChangeEffect,
    DefinitionChange,
    Described,
    Kind,
    compare,
    describe,
    digest_of,
    followed,
    located,
)
from sowline.config.fanouts import FanoutDefinition
from sowline.config.topics import Topics, parse_topics
from sowline.config.views import ConflatedDefinition, ViewDefinition

ORDERS = {"name": "orders", "key": "/id"}
TRADES = {"name": "trades", "key": "/id"}
BY_DESK = {"name": "by-desk", "from": "orders", "grouping": ["/desk"], "projection": ["COUNT(1) AS /n"]}
SLOW = {"name": "slow", "from": "orders", "interval": "1s"}
TO_RISK = {"name": "risk", "topic": "orders"}


def file_of(*topics: dict[str, Any], **lists: list[dict[str, Any]]) -> Topics:
    """Return the topics of a file."""
    return Topics.model_validate({"topics": list(topics), **lists})


def effects(old: Topics, new: Topics) -> dict[str, ChangeEffect]:
    """Return the effect of each change, by name."""
    return {change.name: change.effect for change in compare(describe(old), describe(new))}


@pytest.mark.parametrize(
    ("field", "effect"),
    [
        ({"key": "/other"}, ChangeEffect.REBUILD),
        ({"key_domain": "shared"}, ChangeEffect.REBUILD),
        ({"message_type": "fix"}, ChangeEffect.REBUILD),
        ({"partitions": 2}, ChangeEffect.REBUILD),
        ({"preprocessing": ["UPPER(/name) AS /name"]}, ChangeEffect.REBUILD),
        ({"enrichment": ["/qty * /price AS /value"]}, ChangeEffect.REBUILD),
        ({"documents": True}, ChangeEffect.REBUILD),
        ({"log": "other"}, ChangeEffect.IMPOSSIBLE),
        ({"durability": "transient"}, ChangeEffect.RESTART),
        ({"expiration": "1h"}, ChangeEffect.LIVE),
        ({"record_bytes_max": 1000}, ChangeEffect.LIVE),
        ({"records_max": 1000}, ChangeEffect.LIVE),
        ({"repeat_window": "1d"}, ChangeEffect.LIVE),
        ({"resume_window": "2h"}, ChangeEffect.LIVE),
        ({"history": {"window": "1h"}}, ChangeEffect.LIVE),
        ({"indexes": ["/desk"]}, ChangeEffect.LIVE),
        ({"hash_indexes": [["/desk"]]}, ChangeEffect.LIVE),
        ({"delta": True}, ChangeEffect.LIVE),
        ({"replication": 3}, ChangeEffect.LIVE),
    ],
)
def test_each_field_has_its_effect(field: dict[str, Any], effect: ChangeEffect) -> None:
    """Both when a field is set and when it is left out again; and the change names the field."""
    old, new = file_of(ORDERS), file_of(ORDERS | field)
    [change] = compare(describe(old), describe(new))
    assert (change.name, change.effect, set(field) <= set(change.fields)) == ("orders", effect, True)
    assert effects(new, old) == {"orders": effect}


def test_the_template_of_documents_changes_live() -> None:
    """Also from none, and to none; with another field that is fixed, it needs what that field needs."""
    reviews = ORDERS | {"documents": True}
    old, new = file_of(reviews), file_of(reviews | {"template": {"type": "review"}})
    assert effects(old, new) == effects(new, old) == {"orders": ChangeEffect.LIVE}
    assert effects(old, file_of(reviews | {"template": {"a": 1}, "partitions": 2})) == {
        "orders": ChangeEffect.REBUILD
    }


def test_a_topic_without_records_can_not_get_them() -> None:
    """Its changes topic is not compacted."""
    assert effects(
        file_of(TRADES, {"name": "ticks", "sow": False}), file_of(TRADES, {"name": "ticks", "key": "/id"})
    ) == {"ticks": ChangeEffect.IMPOSSIBLE}


def test_the_table_of_effects_names_real_fields() -> None:
    """A field that is renamed would become a live one without a sound."""
    models: dict[Kind, type[BaseModel]] = {
        Kind.TOPIC: DeclaredTopic,
        Kind.VIEW: ViewDefinition,
        Kind.CONFLATED: ConflatedDefinition,
        Kind.FANOUT: FanoutDefinition,
    }
    for kind, fields in FIELD_EFFECTS.items():
        names = {field.alias or name for name, field in models[kind].model_fields.items()}
        assert fields.keys() <= names, kind


def test_what_means_the_same_is_no_change() -> None:
    """A default that is written out, another spelling, another order of the topics."""
    old = file_of(ORDERS, TRADES | {"repeat_window": "24h"})
    new = file_of(
        TRADES | {"repeat_window": "1d"}, ORDERS | {"key": ["/id"], "partitions": 1, "log": "orders"}
    )
    assert effects(old, new) == {}
    assert digest_of(describe(old)) == digest_of(describe(new))


def test_the_first_field_of_a_change_is_the_one_that_decides() -> None:
    """Its line is the one to look at."""
    new = parse_topics("topics:\n- name: orders\n  expiration: 1h\n  key: /other\n")
    [change] = compare(describe(file_of(ORDERS)), describe(new))
    assert change.fields == ("key", "expiration")
    assert located(change, new) == ("topics", 0, "key")
    assert str(change).startswith("orders (key, expiration) needs a rebuild: stop the materializers")


def test_the_rest_of_a_file_takes_effect() -> None:
    """A change that is refused keeps its own previous definition, and no other one."""
    old = file_of(ORDERS, TRADES)
    new = file_of(ORDERS | {"key": "/other"}, TRADES | {"expiration": "1h"}, {"name": "users", "key": "/id"})
    found = followed(old, new)
    assert [change.name for change in found.refused] == ["orders"]
    assert found.topics == file_of(ORDERS, TRADES | {"expiration": "1h"}, {"name": "users", "key": "/id"})


def test_a_topic_does_not_take_the_log_of_another() -> None:
    """A rename is no new topic: what the log led to is of the previous name."""
    old, new = file_of(ORDERS, TRADES), file_of(ORDERS, TRADES | {"name": "deals", "log": "trades"})
    found = followed(old, new)
    assert [str(change) for change in found.refused] == [
        "deals impossible: its log is that of trades: give it another log, or keep the name"
    ]
    assert found.topics == file_of(ORDERS)


def test_what_reads_a_refused_definition_is_refused() -> None:
    """It may need the fields of the new definition; a view that is unchanged goes on."""
    old = file_of(ORDERS, views=[BY_DESK])
    new = file_of(
        ORDERS | {"key": "/other"},
        views=[BY_DESK, BY_DESK | {"name": "late"}],
        conflated=[SLOW | {"from": "late"}],
    )
    found = followed(old, new)
    assert {change.name: change.why for change in found.refused if change.name != "orders"} == {
        "late": "it reads orders, whose change is refused",
        "slow": "it reads late, whose change is refused",
    }
    assert found.topics == old


def test_what_a_kept_definition_reads_stays() -> None:
    """The view can't change while it runs, so that its previous source is still needed."""
    old = file_of(ORDERS, TRADES, views=[BY_DESK])
    new = file_of(TRADES, views=[BY_DESK | {"from": "trades"}])
    found = followed(old, new)
    assert {change.name: change.effect for change in found.changes} == {
        "by-desk": ChangeEffect.REBUILD,
        "orders": ChangeEffect.IMPOSSIBLE,
    }
    assert digest_of(describe(found.topics)) == digest_of(describe(old))


def test_a_name_keeps_its_kind() -> None:
    """A topic does not become a view: their logs are not of one kind."""
    new = file_of(TRADES, conflated=[{"name": "orders", "from": "trades", "interval": "1s"}])
    assert effects(file_of(ORDERS, TRADES), new) == {"orders": ChangeEffect.IMPOSSIBLE}


@pytest.mark.parametrize(
    ("old", "new", "effect"),
    [
        ({}, {"filter": "/desk = 'a'"}, ChangeEffect.LIVE),
        ({"delta": True}, {"delta": True, "filter": "/desk = 'a'"}, ChangeEffect.IMPOSSIBLE),
        ({"options": "oof"}, {"options": "oof", "filter": "/desk = 'a'"}, ChangeEffect.IMPOSSIBLE),
        ({"delta": True, "options": "oof"}, {"options": "oof"}, ChangeEffect.LIVE),
        ({"options": "oof"}, {"delta": True, "options": "oof"}, ChangeEffect.LIVE),
        ({"delta": True}, {}, ChangeEffect.LIVE),
        # Since its filter was another one, its readers may lack records.
        ({}, {"delta": True}, ChangeEffect.IMPOSSIBLE),
        ({}, {"options": "oof"}, ChangeEffect.IMPOSSIBLE),
        ({}, {"topic": "trades"}, ChangeEffect.IMPOSSIBLE),
    ],
)
def test_a_fanout_changes_unless_its_readers_keep_records(
    old: dict[str, Any], new: dict[str, Any], effect: ChangeEffect
) -> None:
    """They keep those that the previous filter chose, and positions of the previous topic."""
    before, after = (
        file_of(ORDERS, TRADES, fanouts=[TO_RISK | old]),
        file_of(ORDERS, TRADES, fanouts=[TO_RISK | new]),
    )
    assert effects(before, after) == {"risk": effect}


def test_a_fanout_with_oof_that_the_first_version_described() -> None:
    """It had no hash there: the same file is no change of it."""
    described = describe(file_of(ORDERS, fanouts=[TO_RISK | {"options": "oof"}]))
    (fanout,) = (one for one in described if one.kind is Kind.FANOUT)
    earlier = tuple(replace(one, deciding="") if one is fanout else one for one in described)
    assert compare(earlier, described) == ()


def test_a_view_changes_by_its_options_and_intervals() -> None:
    """Its computation needs a rebuild."""
    old = file_of(ORDERS, views=[BY_DESK], conflated=[SLOW])
    new = file_of(ORDERS, views=[BY_DESK | {"indexes": ["/n"]}], conflated=[SLOW | {"interval": "2s"}])
    assert effects(old, new) == {"by-desk": ChangeEffect.LIVE, "slow": ChangeEffect.LIVE}
    other = file_of(ORDERS, views=[BY_DESK | {"having": "/n > 1"}], conflated=[SLOW])
    assert effects(old, other) == {"by-desk": ChangeEffect.REBUILD}


def test_a_reason_from_elsewhere_refuses_a_definition() -> None:
    """Kafka may have a topic of that name with fewer partitions."""
    old, new = file_of(ORDERS), file_of(ORDERS, TRADES)
    found = followed(old, new, {(False, "trades"): "Kafka topic trades has 1 partition"})
    assert found.topics == old
    assert list(map(str, found.refused)) == ["trades impossible: Kafka topic trades has 1 partition"]
    assert followed(old, old, {(False, "orders"): "it has no room"}).changes == ()


def test_a_file_that_does_not_fit_what_is_kept_is_refused_whole() -> None:
    """The new fanout would write to the log that the kept topic has."""
    old = file_of(ORDERS | {"log": "fanout.risk"}, TRADES)
    new = file_of(ORDERS | {"log": "other"}, TRADES, fanouts=[TO_RISK | {"topic": "trades"}])
    found = followed(old, new)
    assert (found.topics, len(found.refused)) == (old, 2)
    assert "together with the previous definitions that are kept: " in found.refused[1].why


def test_a_description_is_read_back() -> None:
    """Services send it, and `sowline plan` compares it with a file."""
    found = describe(
        file_of(ORDERS | {"template": {"a": 1}, "documents": True}, views=[BY_DESK], fanouts=[TO_RISK])
    )
    assert tuple(Described.received(one.sent()) for one in found) == found


PATHS = st.sampled_from(["/id", "/desk"])
TOPIC = st.fixed_dictionaries(
    {"key": PATHS},
    optional={
        "partitions": st.integers(1, 2),
        "expiration": st.sampled_from(["1h", "2h"]),
        "indexes": st.lists(PATHS, max_size=2, unique=True),
        "log": st.sampled_from(["a", "b", "c"]),
        "durability": st.just("transient"),
    },
)
NAMES = st.sampled_from(["a", "b", "c", "d"])
SOURCES = st.fixed_dictionaries({"from": NAMES, "interval": st.sampled_from(["1s", "2s"])})
FANOUT = st.fixed_dictionaries(
    {"topic": NAMES}, optional={"filter": st.just("/id = 1"), "delta": st.just(True)}
)


def listed(named: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return definitions as a file lists them."""
    return [{"name": name, **fields} for name, fields in named.items()]


@st.composite
def files(draw: st.DrawFn) -> Topics | None:
    """Draw a file; None if it is not valid."""
    try:
        return Topics.model_validate(
            {
                "topics": listed(draw(st.dictionaries(NAMES, TOPIC, min_size=1))),
                "conflated": listed(draw(st.dictionaries(NAMES, SOURCES, max_size=2))),
                "fanouts": listed(draw(st.dictionaries(NAMES, FANOUT, max_size=2))),
            }
        )
    except ValidationError:
        return None


FILES = files().filter(lambda found: found is not None)


@given(FILES, FILES)
@settings(max_examples=300)
def test_any_two_files(old: Topics, new: Topics) -> None:
    """What is in effect differs from the file by what is refused, and by nothing else; the rest is the file's."""
    found = followed(old, new)
    in_effect = {one.key: one for one in describe(found.topics)}
    before = {one.key: one for one in describe(old)}
    wanted = {one.key: one for one in describe(new)}
    refused = {change.key for change in found.refused}
    assert {change.key for change in compare(in_effect.values(), wanted.values())} == refused
    for key in in_effect.keys() | wanted.keys() | before.keys():
        assert in_effect.get(key) == (before if key in refused else wanted).get(key)


@given(FILES, FILES)
def test_the_way_back_is_open(old: Topics, new: Topics) -> None:
    """From what is in effect after a change, the previous file can be reached wherever the change was taken."""
    found = followed(old, new)
    assert followed(found.topics, found.topics).changes == ()
    changes: tuple[DefinitionChange, ...] = compare(describe(found.topics), describe(old))
    assert all(change.effect.is_taken for change in changes)
