"""The deadlines of a checker."""

import asyncio
import itertools

import pytest

from sowline.check.patience import Patience, UnansweredError
from sowline.errors import SowlineError


async def never() -> str:
    """Wait for an answer that does not come."""
    await asyncio.get_running_loop().create_future()
    return "late"


async def test_an_answer() -> None:
    """Is returned."""

    async def answer() -> str:
        return "here"

    assert await Patience(5).answered("an answer", answer()) == "here"


async def test_no_answer() -> None:
    """Ends the wait."""
    with pytest.raises(UnansweredError, match=r"^expected an answer within 0\.01 s, got nothing$"):
        await Patience(0.01).answered("an answer", never())


async def test_a_refusal_is_followed_by_an_answer() -> None:
    """It is asked again, because a service may be recovering."""
    numbers = itertools.count()

    async def ask() -> int:
        if (number := next(numbers)) == 0:
            raise SowlineError("behind", "not yet")
        return number

    assert await Patience(5).until_answered("an answer", ask) == 1


async def test_refusals_without_end() -> None:
    """The last one is named."""

    async def ask() -> None:
        raise SowlineError("behind", "not yet")

    with pytest.raises(UnansweredError, match=r"^expected an answer within 0\.3 s, got behind: not yet$"):
        await Patience(0.3).until_answered("an answer", ask)


async def test_an_answer_that_did_not_come_within_another_wait() -> None:
    """Is not asked for again: that deadline is over too."""
    with pytest.raises(UnansweredError, match=r"^expected one within 0\.01 s"):
        await Patience(5).until_answered("both", lambda: Patience(0.01).answered("one", never()))
