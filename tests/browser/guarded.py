"""A query service that asks for tokens."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from tests.integration.served import Served
from tests.integration.wire import Json


@contextmanager
def guarded(served: Served, tmp_path: Path, **roles: Json) -> Iterator[str]:
    """Lend the address of a query service that asks for tokens: `sow_` and the role of who has it."""
    users = [
        {"user": f"user of {role}", "sha256": sha256(f"sow_{role}".encode()).hexdigest(), "roles": [role]}
        for role in roles
    ]
    (tmp_path / "access.yaml").write_text(json.dumps({"tokens": users, "roles": roles}))
    service = served.system.service("query_service", access=tmp_path / "access.yaml").start().wait_ready()
    yield service.url
    service.close()
