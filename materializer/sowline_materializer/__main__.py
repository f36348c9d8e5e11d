"""Runs the service as a process, `python -m sowline_materializer`, or a command on a topic's state: `… dump orders`.

Its settings are `SOWLINE_*` variables.
"""

import sys

from sowline.runtime.process import main
from sowline_materializer.service import serve

if __name__ == "__main__":
    if sys.argv[1:]:
        from sowline_materializer.admin.commands import operate  # The service needs none of these modules.

        operate(prog_name="sowline")
    else:
        main(serve)
