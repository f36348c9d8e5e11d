"""All reason codes in one list."""

from contract.reasons.access import ACCESS
from contract.reasons.operation import OPERATION
from contract.reasons.records import RECORDS
from contract.reasons.requests import REQUESTS

REASONS = (*ACCESS, *OPERATION, *RECORDS, *REQUESTS)
