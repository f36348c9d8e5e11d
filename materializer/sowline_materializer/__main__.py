"""Runs the service as a process, `python -m sowline_materializer`, or a command on a topic's state: `… dump orders`.

Its settings are `SOWLINE_*` variables.
"""

import sys

from sowline.runtime.process import main
from sowline.runtime.programs import end_without_server

if __name__ == "__main__":
    if sys.argv[1:]:
        end_without_server()
        from sowline_materializer.admin.commands import operate  # Only commands need these modules.

        operate(prog_name="sowline")
    else:
        main("sowline_materializer.service")
