"""The version of Sowline in logs, health answers, stored state and the package; and the commands for extras."""

__version__ = "0.1.0"


def installing(extra: str) -> str:
    """Return the command that installs an extra: of a release, and in a clone."""
    in_clone = "./native" if extra == "native" else f"'.[{extra}]'"
    return f"pip install 'sowline[{extra}]', or in a clone pip install {in_clone}"
