"""Run the service as a process: `python -m views`; its settings are `SOWLINE_*` variables."""

from sowline.runtime.process import main
from views.service import serve

if __name__ == "__main__":
    main(serve)
