"""The page of reason codes, `docs/reasons.md`, made from their list."""

from contract.reasons import REASONS, Reason

_HEAD = """\
# Reason codes

Look up the `reason` of an error: its meaning, a sample `message`, and what to do next. Every error of the
[API](api.md), the [client](client.md) and the commands has a reason, as does every [dead
letter](kafka.md#dead-letters). In programs, use the `reason`: unlike the `message`, it doesn't change.

<!-- Made from contract/reasons/ by `python -m contract`. -->
"""


def reasons_page() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *map(_section, sorted(REASONS))])


def _section(reason: Reason) -> str:
    parts = [f"## `{reason.code}`", reason.meaning, f"> {reason.example}", f"**Fix:** {reason.cure}"]
    return "\n\n".join(parts) + "\n"
