"""The outbox: what waits to be sent, and who waits for it to drain."""

import asyncio

from sowline.serving.backlogs import BACKLOG_BYTES_MIN, Backlogs
from sowline.serving.outbox.outbox import FRAME_BYTES, FRAME_MESSAGES_MAX, Outbox
from tests.waiting import loop_turns


async def test_messages_go_out_in_order() -> None:
    """What was put first is taken first, several at a time."""
    outbox = Outbox(1000)
    for message in (b"1", b"2", b"3"):
        outbox.put(message)
    assert await outbox.take() == [b"1", b"2", b"3"]


async def test_taking_waits_for_a_message() -> None:
    """Anyone who takes from an empty outbox gets the next message, also from one that was emptied."""
    outbox = Outbox(1000)
    for message in (b"1", b"2"):
        taking = asyncio.create_task(outbox.take())
        await loop_turns()
        assert not taking.done()
        outbox.put(message)
        assert await taking == [message]


async def test_a_frame_has_a_largest_count_and_size() -> None:
    """Many small messages or few large ones: the rest goes into the next frame."""
    outbox = Outbox(10**9)
    for _ in range(FRAME_MESSAGES_MAX + 1):
        outbox.put(b"x")
    assert [len(await outbox.take()) for _ in range(2)] == [FRAME_MESSAGES_MAX, 1]
    for _ in range(3):
        outbox.put(b"x" * (FRAME_BYTES // 2))
    assert [len(await outbox.take()) for _ in range(2)] == [2, 1]
    assert outbox.sent_bytes == FRAME_MESSAGES_MAX + 1 + 3 * (FRAME_BYTES // 2)


async def test_a_message_larger_than_a_frame_goes_by_itself() -> None:
    """Nothing is too large to be sent."""
    outbox = Outbox(10)
    outbox.put(b"x" * (2 * FRAME_BYTES))
    outbox.put(b"y")
    assert [len(await outbox.take()) for _ in range(2)] == [1, 1]


async def test_a_full_outbox_has_drained_once_it_is_half_empty() -> None:
    """Above the limit it is full; anyone who waits goes on when half of it is gone, not before."""
    outbox = Outbox(FRAME_BYTES * 2)
    await outbox.wait_drained()
    for _ in range(3):
        outbox.put(b"x" * FRAME_BYTES)
    assert outbox.full
    waiting = asyncio.create_task(outbox.wait_drained())
    await outbox.take()
    await loop_turns()
    assert not outbox.full
    assert not waiting.done()
    await outbox.take()
    await waiting


async def test_the_limit_itself_is_not_full() -> None:
    """Exactly as many bytes as allowed still fit."""
    outbox = Outbox(2)
    outbox.put(b"xx")
    assert not outbox.full
    outbox.put(b"")
    assert not outbox.full
    outbox.put(b"x")
    assert outbox.full


async def test_many_outboxes_share_what_there_is() -> None:
    """Each has its own limit while there is enough for all, then an equal share, but never less than a frame."""
    backlogs = Backlogs(100 * FRAME_BYTES)
    outbox = Outbox(20 * FRAME_BYTES, backlogs=backlogs)
    limits = []
    for outboxes in (0, 1, 5, 10, 100, 10_000):
        backlogs.divide(outboxes)
        limits.append(outbox.bytes_max)
    assert limits == [20 * FRAME_BYTES] * 3 + [10 * FRAME_BYTES, FRAME_BYTES, BACKLOG_BYTES_MIN]
    outbox.put(b"x" * (FRAME_BYTES + 1))
    assert outbox.full


async def test_clients_that_come_one_after_the_other_stay_within_the_limit() -> None:
    """Each fills its outbox before the next one comes; once the limit is reached, the rest get the least there is."""
    backlogs, held = Backlogs(20 * FRAME_BYTES), list[Outbox]()
    for number in range(1, 101):
        backlogs.divide(number)
        held.append(Outbox(20 * FRAME_BYTES, backlogs=backlogs))
        while not held[-1].full:
            held[-1].put(b"x" * (FRAME_BYTES // 4))
    outboxes_bytes = sum(outbox.unsent_bytes for outbox in held)
    assert backlogs.unsent_bytes == outboxes_bytes <= (20 + 100 * 1.25) * FRAME_BYTES
    held[0].take_now()
    assert backlogs.unsent_bytes < outboxes_bytes
    for outbox in held:
        outbox.close()
    assert backlogs.unsent_bytes == 0


async def test_a_frame_may_take_the_last_message_beyond_its_size() -> None:
    """Then nothing is left, and the next message wakes the writer again."""
    outbox, frames = Outbox(10**9), list[int]()
    outbox.written_by(lambda: frames.append(len(outbox.take_now())))
    outbox.put(b"x" * (FRAME_BYTES - 1))
    outbox.put(b"yy")
    await loop_turns(2)
    outbox.put(b"z")
    await loop_turns(2)
    assert frames == [2, 1]


async def test_the_list_of_a_caller_stays_as_it_is() -> None:
    """Messages that come later are put behind, and not into it."""
    outbox, changes = Outbox(1000), [b"1", b"2"]
    outbox.put_all_behind(changes, [["s"], ["s"]])
    outbox.put(b"3")
    assert outbox.take_now() == [b"1", b"2", b"3"]
    assert changes == [b"1", b"2"]


async def test_what_waits_for_the_end_of_a_group_does_not_hold_it_up() -> None:
    """The group goes on, however much waits for its end."""
    outbox = Outbox(10)
    async with outbox.group():
        outbox.put_in_group(b"begin")
        outbox.put_behind(b"x" * 20, ["s"])
        assert not outbox.is_blocked
        await outbox.wait_drained()
    assert outbox.is_blocked


async def test_a_group_that_fails_ends_with_its_error() -> None:
    """What waited for its end comes behind that."""
    outbox = Outbox(1000)
    try:
        async with outbox.group():
            outbox.put_in_group(b"begin")
            outbox.put_behind(b"change", ["s"])
            raise LookupError
    except LookupError:
        outbox.put(b"error", ["q"])
    await loop_turns()
    assert outbox.take_now() == [b"begin", b"error", b"change"]


async def test_what_is_put_after_the_client_has_left_does_not_count() -> None:
    """Its tasks may end a moment later than its connection."""
    backlogs = Backlogs(BACKLOG_BYTES_MIN)
    outbox = Outbox(1000, None, backlogs)
    outbox.put(b"12")
    assert backlogs.unsent_bytes == 2
    outbox.close()
    outbox.put(b"345")
    assert backlogs.unsent_bytes == 0
