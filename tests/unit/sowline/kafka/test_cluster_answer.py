"""A question that is asked again and again: when, and what becomes of an answer that does not come."""

from types import SimpleNamespace
from typing import cast

from sowline.kafka.cluster_answer import ClusterAnswer, RepeatedQuestion
from sowline.kafka.retriable import ANSWER_SECONDS

INTERVAL = 3.0


class Asker:
    """Asks a question, notes how often, and takes each answer as its number."""

    def __init__(self) -> None:
        self.question = RepeatedQuestion(INTERVAL)
        self.asked: list[SimpleNamespace] = []

    def look(self, now: float) -> int | None:
        """Look at a time."""
        return self.question.look(now, self._ask, lambda answer: cast("SimpleNamespace", answer).number)

    def _ask(self) -> ClusterAnswer:
        self.asked.append(SimpleNamespace(is_answered=False, number=len(self.asked)))
        return cast("ClusterAnswer", self.asked[-1])


def test_an_answer_is_taken_once_and_the_question_is_asked_at_the_interval() -> None:
    """It is pending until its answer is taken; the next one comes no sooner than the interval."""
    asker = Asker()
    assert asker.look(INTERVAL) is None
    assert asker.question.is_pending
    asker.asked[0].is_answered = True
    assert asker.look(INTERVAL + 1) == 0
    assert not asker.question.is_pending
    assert asker.look(2 * INTERVAL - 0.1) is None
    assert len(asker.asked) == 1
    assert asker.look(2 * INTERVAL) is None
    assert len(asker.asked) == 2


def test_an_answer_that_never_comes_is_given_up() -> None:
    """The question is asked again, and the late answer is not taken for the new one."""
    asker = Asker()
    asker.look(INTERVAL)
    asker.look(INTERVAL + ANSWER_SECONDS - 0.1)
    assert asker.question.is_pending
    asker.look(INTERVAL + ANSWER_SECONDS)
    assert not asker.question.is_pending
    asker.look(INTERVAL + ANSWER_SECONDS)
    assert len(asker.asked) == 2
    asker.asked[0].is_answered = True
    assert asker.look(INTERVAL + ANSWER_SECONDS) is None
    asker.asked[1].is_answered = True
    assert asker.look(INTERVAL + ANSWER_SECONDS) == 1
