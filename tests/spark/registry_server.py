"""A schema registry for tests: a server that answers the calls for a schema by id and for a subject's latest."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TYPES = {"avro": "AVRO", "protobuf": "PROTOBUF", "json-schema": "JSON"}


class RegistryServer(ThreadingHTTPServer):
    """`away` are how many calls it fails first, and `asked` the paths of all calls."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, Any] = {}
        self.away = 0
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.server_port}"

    def add(self, id: int, subject: str, message_type: str, schema: str) -> None:
        """Register a schema as the only version of a subject."""
        found = {"id": id, "subject": subject, "version": 1, "schema": schema}
        found["schemaType"] = TYPES.get(message_type, message_type)
        self.answers[f"/schemas/ids/{id}"] = found
        self.answers[f"/schemas/ids/{id}/versions"] = [{"subject": subject, "version": 1}]
        self.answers[f"/subjects/{subject}/versions/latest"] = found


class _Handler(BaseHTTPRequestHandler):
    server: RegistryServer

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        found, status = self.server.answers.get(self.path), 200
        if self.server.away:
            self.server.away -= 1
            found, status = {"error_code": 50001, "message": "away"}, 503
        elif found is None:
            found, status = {"error_code": 40403, "message": "Schema not found"}, 404
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    def log_message(self, format: str, *arguments: object) -> None:
        """Write nothing."""


@contextmanager
def registry_server() -> Iterator[RegistryServer]:
    """Run a registry without schemas."""
    with RegistryServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
