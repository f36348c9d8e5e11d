"""Run the service as a process: `python -m sowline_query_service`; its settings are `SOWLINE_*` variables."""

from sowline.runtime.process import main

if __name__ == "__main__":
    main("sowline_query_service.service")
