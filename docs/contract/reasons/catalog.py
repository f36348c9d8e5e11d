"""All reason codes in one list."""

from docs.contract.reasons.access import ACCESS
from docs.contract.reasons.operation import OPERATION
from docs.contract.reasons.records import RECORDS
from docs.contract.reasons.requests import REQUESTS

REASONS = (*ACCESS, *OPERATION, *RECORDS, *REQUESTS)
