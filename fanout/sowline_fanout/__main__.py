"""Run the service as a process: `python -m sowline_fanout`; its settings are `SOWLINE_*` variables."""

from sowline.runtime.process import main
from sowline_fanout.service import serve

if __name__ == "__main__":
    main(serve)
