"""The page of reason codes, `docs/reasons.md`, made from their list."""

from contract.reasons import REASONS, Reason

_HEAD = """\
# Reason codes

Look up the `reason` of an error on this page. Every error of the [API](api.md), the [client](client.md) and the
commands has a reason, as does every [dead letter](kafka.md#dead-letters). Use the `reason` in programs: it doesn't
change. The `message`, shown in each section, is for people and usually says how to fix the error.

<!-- Made from contract/reasons/ by `python -m contract`. -->
"""


def reasons_page() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *map(_section, sorted(REASONS))])


def _section(reason: Reason) -> str:
    parts = [f"## `{reason.code}`", reason.meaning, f"> {reason.example}"]
    if reason.cure is not None:
        parts.append(f"**Fix:** {reason.cure}")
    return "\n\n".join(parts) + "\n"
