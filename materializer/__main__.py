"""Runs the service as a process, `python -m materializer`, or a command on a topic's state: `… dump orders`.

Its settings are `SOWLINE_*` variables.
"""

import sys

from materializer.service import serve
from sowline.runtime.process import main

if __name__ == "__main__":
    if sys.argv[1:]:
        from materializer.admin.commands import operate  # The service needs none of these modules.

        operate(prog_name="sowline")
    else:
        main(serve)
