"""Key generators for the tests, and how to install them as a package would."""

from pathlib import Path

MODULE = '''
class Desk:
    """The desk and the id of a trade, with a separator between them."""

    version = "1"

    def __init__(self, options):
        self.separator = options.get("separator", "")

    def key(self, record, appended):
        assert appended is None
        return f"{record.pop('desk')}{self.separator}{record.pop('id')}"


class Placed:
    version = "1"
    uses_append = True

    def __init__(self, options):
        pass

    def key(self, record, appended):
        return f"{appended.time}/{appended.partition}/{appended.offset}"


def strict(options):
    raise ValueError("no options will do")


def unversioned(options):
    return object()
'''

ENTRY_POINTS = """[sowline.key_generators]
desk = desk_keys:Desk
placed = desk_keys:Placed
broken = desk_keys:missing
strict = desk_keys:strict
unversioned = desk_keys:unversioned
"""


def install(directory: Path) -> None:
    """Install the generators in a directory, which is to be on the path of Python."""
    (directory / "desk_keys.py").write_text(MODULE)
    install_package(directory, "desk-keys", "3.1", ENTRY_POINTS)


def install_package(directory: Path, name: str, version: str, entry_points: str) -> None:
    """Install what a package says of itself, without its modules."""
    info = directory / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(entry_points)
