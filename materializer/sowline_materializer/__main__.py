"""Runs the service as a process, `python -m sowline_materializer`, or a command on a topic's state: `… dump orders`.

Its settings are `SOWLINE_*` variables.
"""

import sys

from sowline.runtime.interrupt import ended_by_interrupt


def _operate() -> None:
    with ended_by_interrupt():
        # Only commands need these modules.
        from sowline.runtime.programs import end_without_server

        end_without_server()
        from sowline_materializer.admin.commands import operate

        operate(prog_name="sowline")


if __name__ == "__main__":
    if sys.argv[1:]:
        _operate()
    else:
        from sowline.runtime.process import main

        main("sowline_materializer.service")
