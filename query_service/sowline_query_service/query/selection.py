"""The selection of a query: filter, order, number, and form of the records."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sowline.language.expressions.order import Order
from sowline.language.filter import ALL, Filter
from sowline.model.select import Select
from sowline.wire.options import Options


@dataclass(frozen=True, slots=True)
class Selection:
    """The requested records, their order, their number, and their form."""

    filter: Filter = ALL
    options: Options = field(default_factory=Options)
    order: Order = field(default_factory=Order)
    top_n: int | None = None
    skip_n: int = 0
    sow_keys: tuple[bytes, ...] = ()
    entitled: Mapping[str, Filter] = field(default_factory=dict)
    """The filters of the user's entitlements by topic, which `filter` includes. Other topics have none."""
    readable: Select | None = None
    """The fields that the user may see, which `options.select` is limited to; None for all."""
    merges: bool = False
    """Whether a gateway merges the answer, which then has sort values and the states of groups."""
    relays: bool = False
    """Whether a gateway makes the client's messages: it is sent whole changes."""
    shares: bool = False
    """Whether a gateway passes the messages on to several clients: then only equal ones are sent as one."""
    sample_n: int = 0
    """Each `sample_n`-th of the skipped records is a sample of a gateway's deep page. 0 for other queries."""
    hides: bool = False
    """Whether the user may not see some records. Then the counts of records read are hidden too."""
    live: Filter | None = field(default=None, compare=False)
    """The filter of live messages, if it was made already (see `live_filter`)."""

    @property
    def is_ordered(self) -> bool:
        """Whether records must be sorted. With a limit and no order, they are sorted by SOW key."""
        return bool(self.order.terms) or self.top_n is not None

    @property
    def end(self) -> int | None:
        """The number of records up to the end of the selection, skipped ones included; None without a limit."""
        return None if self.top_n is None else self.skip_n + self.top_n
