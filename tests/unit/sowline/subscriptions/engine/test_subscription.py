"""The subscription engine: what one change means to one subscriber."""

import orjson
import pytest
from msgspec import structs

from sowline.changes.change import Change
from sowline.language.emodb.writes import Writes
from sowline.language.filter import ALL, FilterError, Metadata, compile_filter
from sowline.model.position import Position
from sowline.subscriptions.engine.subscription import (
    ChangeView,
    Delivery,
    Subscription,
    as_left,
    entitled,
    is_sent_before,
    left_sight,
    require_sent_before,
)

NEW_YORK = b'{"buyer":{"id":1,"loc":"NY"}}'
NEW_YORK_TOO = b'{"buyer":{"id":1,"loc":"NY","age":9}}'
LONDON = b'{"buyer":{"id":1,"loc":"LN"}}'
FILTER = '/buyer/loc="NY"'


def seen(previous: bytes | None, body: bytes | None) -> ChangeView:
    """Return a change from one body to the next."""
    op = "publish" if body is not None else "delete"
    reason = None if body is not None else "deleted"
    return ChangeView(Change(b"1", body, previous, Position(0, 1), Position(0, 0), op, 0, True, reason))


@pytest.mark.parametrize(
    ("previous", "body", "delivery"),
    [
        (None, NEW_YORK, Delivery("publish", NEW_YORK)),
        (NEW_YORK, NEW_YORK_TOO, Delivery("publish", NEW_YORK_TOO, previous=NEW_YORK)),
        (LONDON, NEW_YORK, Delivery("publish", NEW_YORK)),
        (NEW_YORK, LONDON, Delivery("oof", LONDON, "match", NEW_YORK)),
        (NEW_YORK, None, Delivery("oof", NEW_YORK, "deleted", NEW_YORK)),
        (LONDON, None, None),
        (None, LONDON, None),
        (LONDON, LONDON, None),
        (None, None, None),
    ],
)
def test_a_buyer_moves(previous: bytes | None, body: bytes | None, delivery: Delivery | None) -> None:
    """Into focus and in it: publish, whole. Out of it: oof with the new record. Gone: oof with the last one."""
    assert Subscription(compile_filter(FILTER), oof=True).on_change(seen(previous, body)) == delivery
    with_delta = delivery if delivery is not None and delivery.command == "publish" else None
    assert Subscription(compile_filter(FILTER), delta=True).on_change(seen(previous, body)) == with_delta
    plain = None if with_delta is None else structs.replace(with_delta, previous=None)
    assert Subscription(compile_filter(FILTER)).on_change(seen(previous, body)) == plain


def test_without_a_filter_only_a_deletion_is_out_of_focus() -> None:
    """Everything matches; what is gone does not."""
    everything = Subscription(compile_filter(""), oof=True)
    assert everything.on_change(seen(NEW_YORK, LONDON)) == Delivery("publish", LONDON, previous=NEW_YORK)
    assert everything.on_change(seen(NEW_YORK, None)) == Delivery("oof", NEW_YORK, "deleted", NEW_YORK)


def test_a_change_is_parsed_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many subscriptions look at it, each body is parsed at most once, and only if someone asks."""
    parsed: list[bytes] = []
    loads = orjson.loads

    def counting(body: bytes) -> object:
        parsed.append(body)
        return loads(body)

    monkeypatch.setattr("sowline.subscriptions.engine.subscription.orjson.loads", counting)
    change_view = seen(NEW_YORK, LONDON)
    for _ in range(3):
        Subscription(compile_filter(FILTER)).on_change(change_view)
    assert parsed == [LONDON]
    for _ in range(3):
        Subscription(compile_filter(FILTER), oof=True).on_change(change_view)
    assert parsed == [LONDON, NEW_YORK]


def test_a_filter_knows_the_facts_of_each_record() -> None:
    """Message functions give those of the new record or of the previous one, and of the topic."""
    change = Change(
        b"7", LONDON, NEW_YORK_TOO, Position(0, 1), Position(0, 0), "publish", 1500, correlation="c"
    )
    change_view = ChangeView(change, Metadata(topic="people"))
    assert change_view.about_now == Metadata("7", "people", size=len(LONDON), updated=1.5, correlation="c")
    assert change_view.about_before == Metadata("7", "people", size=len(NEW_YORK_TOO))
    larger = Subscription(compile_filter(f"MESSAGE_SIZE() > {len(LONDON)}"), oof=True)
    assert larger.on_change(change_view) == Delivery("oof", LONDON, "match", NEW_YORK_TOO, correlation="c")
    people = Subscription(compile_filter("TOPIC_NAME() = 'people' AND CORRELATION_ID() = 'c'"))
    assert people.on_change(change_view) == Delivery("publish", LONDON, correlation="c")
    assert people.on_change(ChangeView(change)) is None


def test_the_correlation_of_the_command_goes_along() -> None:
    """With whatever the change means; not to a user who may not see what the record has become."""
    everything = Subscription(ALL, oof=True)
    desk = Subscription(compile_filter(FILTER), oof=True)
    came = ChangeView(structs.replace(seen(LONDON, NEW_YORK).change, correlation="c7"))
    went = ChangeView(structs.replace(seen(NEW_YORK, LONDON).change, correlation="c7"))
    gone = ChangeView(structs.replace(seen(NEW_YORK, None).change, correlation="c7"))
    payloads = [everything.on_change(came), desk.on_change(came), desk.on_change(went), desk.on_change(gone)]
    assert [one and one.correlation for one in payloads] == ["c7"] * 4
    left = desk.on_change(went)
    assert left is not None
    assert entitled(left, desk.filter).correlation is None


def test_what_takes_a_record_out_of_sight() -> None:
    """A deletion in sight, or a change after which it is hidden; nothing of what happens out of sight."""
    desk = compile_filter(FILTER)
    hides = left_sight(ChangeView(structs.replace(seen(NEW_YORK, LONDON).change, correlation="c7")), desk)
    deletes = left_sight(ChangeView(structs.replace(seen(NEW_YORK, None).change, correlation="c7")), desk)
    assert hides is not None
    assert deletes is not None
    held = b'{"held":1}'
    assert as_left(hides, held) == Delivery("oof", held, "entitlement", held)
    assert as_left(None, held) == Delivery("oof", held, "entitlement", held)
    assert as_left(deletes, held) == Delivery("oof", held, "deleted", held)
    for change in (
        seen(NEW_YORK, NEW_YORK_TOO),
        seen(LONDON, NEW_YORK),
        seen(LONDON, None),
        seen(None, None),
    ):
        assert left_sight(change, desk) is None


def test_states_alone_concern_no_subscriber() -> None:
    """The record of the group is as it was."""
    change = structs.replace(seen(LONDON, LONDON).change, op="partials")
    assert Subscription(ALL, oof=True).on_change(ChangeView(change)) is None


def test_a_redundant_write_may_be_left_out() -> None:
    """Of a document that stays in focus, and only then."""
    change = structs.replace(seen(LONDON, LONDON).change, writes=Writes(2, "b", 1, 9, 1, redundant=True))
    quiet = Subscription(ALL, no_redundant=True)
    assert quiet.on_change(ChangeView(change)) is None
    assert Subscription(ALL).on_change(ChangeView(change)) is not None
    assert quiet.on_change(ChangeView(structs.replace(change, previous=None))) is not None


@pytest.mark.parametrize("is_now", [True, False])
def test_verdicts_are_those_of_each_filter(is_now: bool) -> None:
    """On the record after the change, or on the one before; metadata is read if a filter asks for it."""
    change = seen(LONDON, NEW_YORK)
    texts = [FILTER, "/buyer/loc = 'LN'"]
    expected = [is_now, not is_now]
    assert change.verdicts([compile_filter(text) for text in texts], is_now=is_now) == expected
    with_about = [compile_filter(text) for text in (*texts, "SOW_KEY() = '1'")]
    assert change.verdicts(with_about, is_now=is_now) == [*expected, True]
    gone = seen(None, NEW_YORK) if not is_now else seen(LONDON, None)
    assert gone.verdicts(with_about, is_now=is_now) == [False] * 3


def test_the_record_before_a_change_has_less_metadata() -> None:
    """A filter that asks for more has no result for it."""
    assert is_sent_before(compile_filter("MESSAGE_SIZE() > 5"))
    require_sent_before(compile_filter(FILTER), "a filter")
    for text in ("LAST_UPDATED() > 5", "/a > UNIX_TIMESTAMP()"):
        assert not is_sent_before(compile_filter(text))
        with pytest.raises(FilterError, match="can't be used in a filter"):
            require_sent_before(compile_filter(text), "a filter")
