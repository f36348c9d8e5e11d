"""Replacements of a subscription, which are sent one by one."""

from typing import Any

import pytest

from sowline.subscriptions.replacements import Replacement, Replacements, Sending


@pytest.fixture
def two() -> Replacements:
    """Two replacements that are due."""
    made = Replacements()
    made.add({"filter": "/a = 1"}, is_paused=False)
    made.add({"filter": "/a = 2"}, is_paused=False)
    return made


def number_of(replacement: Replacement | None) -> Any:
    """Return the number of a replacement, if there is one."""
    return None if replacement is None else replacement.number


def test_each_is_sent_after_the_answer_to_the_previous_one(two: Replacements) -> None:
    """They are numbered in the order in which they were asked for."""
    assert (number_of(two.send_next()), number_of(two.send_next())) == (1, None)
    assert (two.is_sent(1), two.is_sent(2), number_of(two.sent)) == (True, False, 1)
    two.settle()
    assert (number_of(two.sent), number_of(two.send_next()), len(two)) == (None, 2, 1)
    two.settle()
    assert (len(two), two.send_next()) == (0, None)


def test_a_postponed_one_is_sent_again_after_its_own_pause(two: Replacements) -> None:
    """The pause of another one does not count."""
    two.send_next()
    two.postpone()
    assert (two.sent, two.send_next()) == (None, None)
    two.again(2)
    assert two.send_next() is None
    two.again(1)
    assert number_of(two.send_next()) == 1
    two.again(1)
    assert number_of(two.sent) == 1


def test_a_subscriber_that_pauses_pauses_all(two: Replacements) -> None:
    """They begin as it is by then."""
    two.pause(is_paused=True)
    first = two.send_next()
    assert first is not None
    assert (first.is_paused, first.sending) == (True, Sending.DONE)


def test_a_service_that_is_lost_has_none_of_them(two: Replacements) -> None:
    """The first one is sent again."""
    two.send_next()
    two.detach()
    assert (two.sent, number_of(two.send_next())) == (None, 1)
