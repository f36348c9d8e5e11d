"""Run the service as a process: `python -m sowline_fanout`; its settings are `SOWLINE_*` variables."""

from sowline.runtime.process import main

if __name__ == "__main__":
    main("sowline_fanout.service")
