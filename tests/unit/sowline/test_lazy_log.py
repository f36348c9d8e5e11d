"""Clients log without importing structlog first."""

import subprocess
import sys

from structlog.testing import capture_logs

from sowline.lazy_log import log


def test_a_line_is_one_of_the_usual_log() -> None:
    """With its level, event and fields."""
    with capture_logs() as lines:
        log.warning("an event", why="a reason")
    assert lines == [{"log_level": "warning", "event": "an event", "why": "a reason"}]


def test_a_client_is_imported_without_structlog() -> None:
    """It is a quarter of what the import of a client would take."""
    program = "import sys, sowline.client.client; print('structlog' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("False\n", "")
