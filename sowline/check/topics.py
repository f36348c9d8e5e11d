"""The topics of the workload, as a part of `topics.yaml`."""

from typing import Final, NamedTuple

from sowline.check.history import TotalsOf
from sowline.config.kafka_names import fanout_output
from sowline.errors import SowlineError

STATUSES: Final = ("open", "done", "late")
OPEN: Final = "/status = 'open'"

GROUPED: Final = "grouping=[/status],projection=[/status,COUNT(1) AS /records,SUM(/qty) AS /qty]"
"""The options of a read of groups."""


def by_status(source: str) -> TotalsOf:
    """Return what the view of a topic, and its groups, compute."""
    return TotalsOf(source, "status", "records", "qty", "qty")


class CheckedFanout(NamedTuple):
    """A fanout, which writes the `oof` messages of its filter too."""

    name: str
    topic: str
    filter: str
    is_delta: bool

    @property
    def output(self) -> str:
        """The Kafka topic that it writes to."""
        return fanout_output(self.name)


class WorkloadTopics(NamedTuple):
    """The names of the topics, all with one prefix."""

    records: str
    """Records that are published, changed and deleted."""
    expiring: str
    """Records with lifetimes."""
    documents: str
    """Documents, which deltas change too."""
    totals: str
    """A view of `records`: the number of records and a sum by status."""

    @classmethod
    def below(cls, prefix: str) -> "WorkloadTopics":
        """Return those with a prefix."""
        return cls(*(f"{prefix}-{name}" for name in cls._fields))

    @property
    def written(self) -> tuple[str, ...]:
        """Those that the workload writes to."""
        return (self.records, self.expiring, self.documents)

    @property
    def fanouts(self) -> tuple[CheckedFanout, ...]:
        """Those of them: deltas of some records, and whole records with the expiries of all."""
        return (
            CheckedFanout(f"{self.records}-open", self.records, OPEN, is_delta=True),
            CheckedFanout(f"{self.expiring}-all", self.expiring, "", is_delta=False),
        )

    @property
    def definitions(self) -> str:
        """The part of `topics.yaml` that defines them."""
        deltas, records = self.fanouts
        return f"""topics:
  - {{name: {self.records}, key: /id, partitions: 3}}
  - {{name: {self.expiring}, key: /id, partitions: 2, expiration: enabled}}
  - {{name: {self.documents}, key: /id, partitions: 2, documents: true}}
views:
  - name: {self.totals}
    from: {self.records}
    grouping: [/status]
    projection: ["COUNT(1) AS /records", "SUM(/qty) AS /qty"]
fanouts:
  - {{name: {deltas.name}, topic: {deltas.topic}, filter: "{deltas.filter}", options: oof, delta: true}}
  - {{name: {records.name}, topic: {records.topic}, options: oof}}
"""

    def check_defined(self, names: set[str]) -> None:
        """Raise `invalid topic` if the system has not all of them."""
        missing = sorted({*self} - names)
        if missing:
            raise SowlineError(
                "invalid topic",
                f"expected the topics of the checker, found no {', '.join(missing)}: add what `sowline check"
                " --definitions` prints to the file of topics",
            )
