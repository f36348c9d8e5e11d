"""The counts of a query, and its limits."""

from dataclasses import dataclass, field

from sowline.errors import SowlineError


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """The limits of one query: records and bytes returned, and seconds of work."""

    records_max: int = 10_000_000
    bytes_max: int = 1 << 40
    seconds_max: float = 3600.0
    groups_max: int = 100_000
    undo_max: int = 20_000
    """The number of changes that may be undone to find the state at a bookmark."""
    page_margin: int = 256
    """The number of records that a live page holds after its end, at first."""

    def check(self, result: "Result") -> None:
        """Raise `result too large` if a limit is exceeded."""
        if result.returned > self.records_max:
            raise SowlineError(
                "result too large",
                f"expected at most {self.records_max} records, got more; narrow the filter, or ask for top_n",
            )
        if result.bytes > self.bytes_max:
            raise SowlineError(
                "result too large",
                f"expected at most {self.bytes_max} bytes, got more; narrow the filter, or select fewer fields",
            )


@dataclass(slots=True)
class Result:
    """The counts of a query; `hash` is the XOR of the 8-byte BLAKE2b hashes of the returned records' SOW keys."""

    topic_matches: int = 0
    matches: int = 0
    returned: int = 0
    bytes: int = 0
    hash: int = 0
    lag_seconds: float | None = None
    """How far the query's instant was behind the log; None if that is not known, or the query is of the past."""
    warnings: list[str] = field(default_factory=list)
    """Sentences about what is probably a mistake in the request, or about what is missing, but no error."""
    missing: dict[str, list[int]] = field(default_factory=dict)
    """The partitions whose records the answer lacks, by topic; the request has the option `partial`."""

    def count(self, records: int, size_bytes: int, hash: int) -> None:
        """Add records that are returned."""
        self.returned += records
        self.bytes += size_bytes
        self.hash ^= hash

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of records, as a `stats` acknowledgement names them."""
        return {
            "topic_matches": self.topic_matches,
            "matches": self.matches,
            "records_returned": self.returned,
            "records_deleted": 0,
        }

    @property
    def counts_and_lag(self) -> dict[str, int | float | None]:
        """The fields of a `stats` acknowledgement: the counts, and the lag."""
        return {
            **self.counts,
            "lag_seconds": None if self.lag_seconds is None else round(self.lag_seconds, 3),
        }
