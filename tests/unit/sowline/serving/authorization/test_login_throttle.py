"""Who fails to log on again and again is answered later each time."""

from sowline.serving.authorization.login_throttle import ADDRESSES_MAX, FREE, SECONDS_MAX, LoginThrottle


def test_later_each_time_up_to_a_limit() -> None:
    """The first failures cost nothing."""
    slowing = LoginThrottle()
    waits = [slowing.note_failure("a", 100.0 + n) for n in range(20)]
    assert waits[: FREE + 3] == [0.0, 0.0, 0.0, 0.1, 0.2, 0.4]
    assert waits[-1] == SECONDS_MAX


def test_an_address_begins_again_after_a_while() -> None:
    """And one has nothing to do with another."""
    slowing = LoginThrottle()
    assert [slowing.note_failure("a", 0.0) for _ in range(5)][-1] > 0
    assert slowing.note_failure("b", 0.0) == 0
    assert slowing.note_failure("a", 61.0) == 0


def test_no_more_addresses_than_so_many() -> None:
    """Are remembered: the oldest go."""
    slowing = LoginThrottle()
    for _ in range(FREE + 1):
        slowing.note_failure("first", 0.0)
    for number in range(ADDRESSES_MAX):
        slowing.note_failure(str(number), 1.0)
    assert slowing.note_failure("first", 2.0) == 0
