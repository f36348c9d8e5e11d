"""Run the service as a process: `python -m gateway`; its settings are `SOWLINE_*` variables."""

from gateway.service import serve
from sowline.runtime.process import main

if __name__ == "__main__":
    main(serve)
