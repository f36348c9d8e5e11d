"""Every reason code: what it means, and what to do. `docs/reasons.md` is made from these lists.

Read them when an error, a dead letter or a failed command carries a code that you do not know. A test compares them
with the codes that the product raises.
"""

from contract.reasons.access import ACCESS
from contract.reasons.operation import OPERATION
from contract.reasons.reason import Reason
from contract.reasons.records import RECORDS
from contract.reasons.requests import REQUESTS

__all__ = ["REASONS", "Reason"]

REASONS = (*ACCESS, *OPERATION, *RECORDS, *REQUESTS)
