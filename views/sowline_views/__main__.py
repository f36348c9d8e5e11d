"""Run the service as a process: `python -m sowline_views`; its settings are `SOWLINE_*` variables."""

from sowline.runtime.process import main
from sowline_views.service import serve

if __name__ == "__main__":
    main(serve)
