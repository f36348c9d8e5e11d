"""Run the service as a process: `python -m query_service`; its settings are `SOWLINE_*` variables."""

from query_service.service import serve
from sowline.runtime.process import main

if __name__ == "__main__":
    main(serve)
