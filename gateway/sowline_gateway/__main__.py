"""Run the service as a process: `python -m sowline_gateway`; its settings are `SOWLINE_*` variables."""

from sowline.runtime.process import main
from sowline_gateway.service import serve

if __name__ == "__main__":
    main(serve)
