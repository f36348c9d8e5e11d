"""Run the service as a process: `python -m materializer`; its settings are `SOWLINE_*` variables."""

from materializer.service import serve
from sowline.process import main

if __name__ == "__main__":
    main(serve)
