"""Every reason code: what it means, and what to do. `docs/reasons.md` is made from these lists.

Read them when an error, a dead letter or a failed command carries a code that you do not know. A test compares them
with the codes that the product raises.
"""

from contract.reasons.catalog import REASONS
from contract.reasons.reason import Reason

__all__ = ["REASONS", "Reason"]
