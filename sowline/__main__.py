"""The `sowline` command, also as `python -m sowline`."""

from sowline.runtime.interrupt import ended_by_interrupt


def main() -> None:
    """Run the command of the process's arguments."""
    # The imports take most of the time of a short command.
    with ended_by_interrupt():
        from sowline.cli import main as command

        command()


if __name__ == "__main__":
    main()
