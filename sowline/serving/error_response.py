"""Builds HTTP error responses: the status, and the reason and message as JSON."""

import math

from starlette.responses import JSONResponse, Response

from sowline.errors import SowlineError
from sowline.serving.refusal import STATUSES


def refused(error: SowlineError, status: int | None = None, retry_seconds: float = 0.0) -> Response:
    """Return the response for an error, with headers that say how to log on or when to retry."""
    status = status or STATUSES.get(error.reason, 400)
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if retry_seconds:
        # Rounded up: a client that retries too early is refused again (test_a_client_retries_after_whole_seconds).
        headers["Retry-After"] = str(math.ceil(retry_seconds))
    return JSONResponse({"reason": error.reason, "message": error.message}, status, headers)
