"""The page of reason codes, `docs/reasons.md`, made from their list."""

from contract.reasons import REASONS, Reason

_HEAD = """\
# Reason codes

Find the `reason` of an error here. Every error of the [API](api.md), of the [client](client.md) and of the
commands has one, as does every [dead letter](kafka.md#dead-letters). `reason` is for programs and doesn't change.
`message` is for people and usually says how to fix the error. Each section has an example of a message.

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
