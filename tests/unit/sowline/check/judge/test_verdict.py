"""The verdict: what was checked, what was broken, and what nothing has checked."""

from sowline.check.judge.verdict import Guarantee, Judgment


def test_checks_and_violations() -> None:
    """Each check counts; a violation names its read and records once."""
    verdict = Judgment()
    verdict.check(Guarantee.ORDER, True, "fine")
    verdict.check(Guarantee.ORDER, False, "got 1 after 2", "r1", ["k", None, "k"])
    verdict.add(Guarantee.VIEWS, "expected 1, got 2")
    assert verdict.broken == {Guarantee.ORDER: 1, Guarantee.VIEWS: 1}
    assert [str(one) for one in verdict.violations] == [
        "order: r1: got 1 after 2",
        "views: expected 1, got 2",
    ]
    assert verdict.violations[0].keys == ("k",)


def test_every_guarantee_has_a_row() -> None:
    """One that nothing has checked as well."""
    verdict = Judgment()
    verdict.check(Guarantee.FOCUS, True, "")
    rows = {name: (checked, broken) for name, checked, broken in verdict.rows()}
    assert rows.keys() == set(Guarantee)
    assert rows[Guarantee.FOCUS] == (1, 0)
    assert rows[Guarantee.EXPIRY] == (0, 0)
