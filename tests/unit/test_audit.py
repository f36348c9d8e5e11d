"""What pip-audit says leads to the right end: findings fail, and where nobody could be asked that is said."""

import json
import runpy
from pathlib import Path

verdict = runpy.run_path(str(Path(__file__).parents[2] / ".ci" / "audit.py"))["verdict"]
WELL = {"name": "orjson", "version": "3.11.0", "vulns": []}
ILL = {"name": "jinja2", "version": "2.10", "vulns": [{"id": "PYSEC-2019-217"}, {"id": "PYSEC-2021-66"}]}
UNKNOWN = {"name": "ours", "skip_reason": "Dependency not found on PyPI and could not be audited: ours (1)"}


def report_of(*packages: object) -> str:
    """Return what pip-audit prints of packages."""
    return json.dumps({"dependencies": packages, "fixes": []})


def test_findings_fail() -> None:
    """With each package and what is known of it."""
    assert verdict(report_of(WELL, ILL, UNKNOWN), "") == (
        1,
        "audit: known vulnerabilities:\njinja2 2.10: PYSEC-2019-217, PYSEC-2021-66",
    )


def test_nothing_found() -> None:
    """Packages that the service does not know are named."""
    assert verdict(report_of(WELL, WELL), "") == (0, "audit: 2 packages without a known vulnerability")
    known = "audit: 1 packages without a known vulnerability; nothing is known of ours"
    assert verdict(report_of(WELL, UNKNOWN), "") == (0, known)


def test_no_answer() -> None:
    """No answer, or none that knows any package, is no clean bill: it says that it was left out."""
    code, sentence = verdict("", "Traceback …\nrequests.exceptions.ConnectionError: no route\n")
    assert (code, "LEFT OUT" in sentence) == (0, True)
    code, sentence = verdict(report_of(UNKNOWN), "")
    assert (code, "LEFT OUT" in sentence) == (0, True)


def test_a_wrong_question_fails() -> None:
    """Whatever else ends pip-audit is no reason to go on."""
    assert verdict("", "pip-audit: error: unrecognized arguments: --nonsense")[0] == 1
