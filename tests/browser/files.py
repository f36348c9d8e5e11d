"""Files as a web server has them: pages of another origin than the service."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread


class _Silent(SimpleHTTPRequestHandler):
    """Logs nothing."""

    def log_message(self, format: str, *args: object) -> None:
        """Be silent."""


@contextmanager
def web_server(directory: Path) -> Iterator[str]:
    """Serve the files of a directory; lend the origin."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(directory))) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
