"""Ask whether a vulnerability is known of what is installed; where nobody can be asked, say so and go on.

`python .ci/audit.py PIP-AUDIT SITE-PACKAGES` exits with 1 where something is found, and where the question itself is
wrong.
"""

import json
import subprocess
import sys

UNREACHED = ("ConnectionError", "ConnectTimeout", "ReadTimeout", "ServiceError")
"""One of these is in pip-audit's last words on standard error where the service does not answer."""


def verdict(output: str, errors: str) -> tuple[int, str]:
    """Return the exit code and the sentence that follow from what pip-audit has said."""
    last = errors.strip().rpartition("\n")[2]
    if not output.strip():
        if any(name in last for name in UNREACHED):
            return 0, f"audit: LEFT OUT, the vulnerability service can't be reached: {last}"
        return 1, f"audit: pip-audit has failed: {errors}"
    packages = json.loads(output)["dependencies"]
    found = [
        f"{one['name']} {one['version']}: {', '.join(known['id'] for known in one['vulns'])}"
        for one in packages
        if one.get("vulns")
    ]
    unknown = [one["name"] for one in packages if "skip_reason" in one]
    if found:
        return 1, "\n".join(["audit: known vulnerabilities:", *found])
    if len(unknown) == len(packages):
        return 0, f"audit: LEFT OUT, the vulnerability service answers for none of {len(packages)} packages"
    beside = f"; nothing is known of {', '.join(unknown)}" if unknown else ""
    return 0, f"audit: {len(packages) - len(unknown)} packages without a known vulnerability{beside}"


def main(audit: str, installed: str) -> int:
    """Ask, print the sentence, and return the exit code."""
    asked = [audit, "--path", installed, "--skip-editable", "--format", "json", "--progress-spinner", "off"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    code, sentence = verdict(done.stdout, done.stderr)
    print(sentence, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
