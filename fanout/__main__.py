"""Run the service as a process: `python -m fanout`; its settings are `SOWLINE_*` variables."""

from fanout.service import serve
from sowline.runtime.process import main

if __name__ == "__main__":
    main(serve)
