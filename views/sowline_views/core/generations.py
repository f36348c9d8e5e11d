"""The generations of the owners of a source partition: in a view with joins, an owner's positions begin with its own.

Readers drop what is not above the positions that they have. So a generation must be higher than all before it, even
after Kafka has forgotten which one was claimed last: it forgets a group that has no members for a week. Therefore a
generation is a time, in seconds, and no owner writes before its time.
"""


def next_generation(claimed: str | None, now: float) -> int:
    """Return the generation after the one that was claimed last, in decimal, at a time in seconds.

    Without a claim, it is the second that begins next: an owner that Kafka has forgotten may still write in this one.
    """
    return max(int(claimed) + 1, int(now)) if claimed else int(now) + 1
