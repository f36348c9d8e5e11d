"""Which guarantees writes keep: each has its one effect, deletes and expiries have theirs and no other. Pure."""

from collections import defaultdict
from collections.abc import Mapping

from sowline.check.history import WriteAnswered, WriteSent
from sowline.check.judge.bookmarks import Partition, Position, covers, named_position, position_text
from sowline.check.judge.records import matches
from sowline.check.judge.truth import KnownChange, TopicTruth
from sowline.check.judge.verdict import Guarantee, Judgment

GRACE_SECONDS = 60.0
"""How much later than due a record may expire while the log moves on: services may have been away."""


class WritesJudge:
    """Judges what the writes to one topic did."""

    def __init__(
        self,
        truth: TopicTruth,
        writes: Mapping[str, WriteSent],
        answers: Mapping[str, WriteAnswered],
        verdict: Judgment,
    ) -> None:
        self._truth = truth
        self._writes = {id: write for id, write in writes.items() if write.topic == truth.topic.name}
        self._answers = {id: answer for id, answer in answers.items() if id in self._writes}
        self._verdict = verdict

    def judge(self) -> None:
        """Judge all of them."""
        self._judge_answers()
        self._judge_removals()
        self._judge_groundless()
        self._judge_outcomes()
        for partition in self._truth.changes:
            self._judge_overdue(partition)

    def _judge_removals(self) -> None:
        """Judge what has removed records: deletes and expiries."""
        removals: dict[str, list[KnownChange]] = defaultdict(list)
        for changes in self._truth.changes.values():
            for change in changes:
                if change.after is None:
                    removals[change.write].append(change)
        for change in removals.pop("", ()):
            self._judge_expiry(change)
        for id, write in self._writes.items():
            if write.filter:
                self._judge_delete(write, removals[id])
            answer = self._answers.get(id)
            if answer is not None and answer.deleted is not None:
                what = f"delete {id} reports {answer.deleted} records, subscribers lost {len(removals[id])} by it"
                self._verdict.check(Guarantee.DELETES, answer.deleted == len(removals[id]), what)

    def _judge_groundless(self) -> None:
        """Judge removals of records that did not exist: a delete of one record may find none."""
        for partition, position, claim in self._truth.groundless:
            if not claim.write or self._writes[claim.write].filter:
                guarantee = Guarantee.DELETES if claim.write else Guarantee.EXPIRY
                what = f"record {claim.key} is removed at {position_text(partition, position)}, but did not exist"
                self._verdict.add(guarantee, what, "", [claim.key])

    def _judge_outcomes(self) -> None:
        """Judge what the writers of deltas have learned: it depends on the document just before their write."""
        for id, wanted in self._truth.outcomes.items():
            answer = self._answers.get(id)
            if answer is not None and answer.outcome:
                what = f"expected the outcome {wanted} of {id}, got {answer.outcome}"
                keys = [str((self._writes[id].data or {}).get(self._truth.topic.key))]
                self._verdict.check(Guarantee.DOCUMENTS, answer.outcome == wanted, what, "", keys)

    def _judge_answers(self) -> None:
        """Judge that a writer's commands stand in the order in which it sent them, and that effects cover them."""
        newest: dict[tuple[str, Partition], Position] = {}
        for id, write in self._writes.items():
            answer = self._answers.get(id)
            if answer is None or (stand := named_position(answer.position)) is None:
                continue
            partition, position = stand
            before = newest.get((write.writer, partition))
            what = f"write {id} stands at {answer.position}, before an earlier write of {write.writer}"
            self._verdict.check(Guarantee.ORDER, before is None or before < position, what)
            newest[write.writer, partition] = position
            if answer.effect:
                what = (
                    f"write {id} stands at {answer.position}, its effect is to be seen from {answer.effect}"
                )
                self._verdict.check(Guarantee.READ_YOUR_WRITES, covers(answer.effect, answer.position), what)

    def _judge_expiry(self, change: KnownChange) -> None:
        verdict, keys = self._verdict, [change.key]
        where = position_text(change.partition, change.position)
        time = self._truth.times.get((change.partition, change.position))
        verdict.check(
            Guarantee.EXPIRY,
            change.is_mortal,
            f"record {change.key} without a lifetime expires at {where}",
            "",
            keys,
        )
        if change.due is not None and time is not None and time < change.due:
            what = f"record {change.key} expires at {where}, {change.due - time:.3f} s before its time"
            verdict.add(Guarantee.EXPIRY, what, "", keys)

    def _judge_overdue(self, partition: Partition) -> None:
        """Judge that no record is still there long after its lifetime, by the log's own time."""
        times = [time for (where, _), time in self._truth.times.items() if where == partition]
        for change in self._truth.newest(partition) if times else ():
            begun = self._truth.times.get((partition, change.position))
            lifetime = self._truth.lifetime(change)
            if begun is not None and lifetime:
                # By the log's time, not by a clock: a log that nobody writes to has no moment after the lifetime
                # (test_a_record_that_never_expires).
                is_kept = max(times) <= begun + lifetime + GRACE_SECONDS
                late = max(times) - begun
                what = f"record {change.key} still exists {late:.0f} s after it was given {lifetime:g} s"
                self._verdict.check(Guarantee.EXPIRY, is_kept, what, "", [change.key])

    def _judge_delete(self, write: WriteSent, removed: list[KnownChange]) -> None:
        """Judge that a delete by filter removes what matches, at one instant of each partition, and nothing else."""
        verdict = self._verdict
        by_offset: dict[tuple[Partition, tuple[int, int]], set[str]] = defaultdict(set)
        for change in removed:
            # Without the index: in one partition, all that a delete removes has its offset
            # (test_a_delete_removes_another_record).
            by_offset[change.partition, change.position[:2]].add(change.key)
            what = f"delete {write.id} removes record {change.key}, which does not match {write.filter}"
            verdict.check(Guarantee.DELETES, matches(write.filter, change.before), what, "", [change.key])
        for (partition, (era, offset)), keys in by_offset.items():
            state = self._truth.state({partition: (era, offset, -1)})
            missed = {
                key
                for key, (body, where, _) in state.items()
                if where == partition and matches(write.filter, body)
            } - keys
            where = position_text(partition, (era, offset, 0))
            what = f"delete {write.id} leaves records that match at {where}: {sorted(missed)}"
            verdict.check(Guarantee.DELETES, not missed, what, "", sorted(missed))
        partitions = [partition for partition, _ in by_offset]
        what = f"delete {write.id} takes effect more than once in a partition"
        verdict.check(Guarantee.ONE_EFFECT, len(partitions) == len(set(partitions)), what)
