"""`sowline types`: what TypeScript makes of the interfaces, and the section of docs/typescript.md."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sowline.cli.typescript import NAMES_MAX, typescript_of
from sowline.client.client import Client
from tests.clients.typescript import PACKAGE, run, served_topic
from tests.docs.pages import blocks_of
from tests.docs.terminal import commands_of
from tests.integration.services import Service

pytestmark = [pytest.mark.needs("node"), pytest.mark.usefixtures("package")]

PAGE = "docs/typescript.md"
COMPILE = (
    *("npx", "tsc", "--strict", "--exactOptionalPropertyTypes", "--noEmit"),
    *("--target", "es2022", "--module", "nodenext", "--types", "node", "--skipLibCheck"),
)

MAPS = [{"v": {f"s{number}": number}} for number in range(NAMES_MAX + 1)]
NAMES = dict.fromkeys(("new", "1a", "a-b", "größe", '"\\', "*/ //", "\n\u2028", "😀", ""), 1)

SAMPLES: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]] = [
    ([{"v": "a"}], [{}, {"v": 1}, {"v": None}, {"v": "a", "w": 1}]),
    ([{"v": 1}, {"v": 2**63}, {"v": -1.5}], [{"v": "1"}]),
    ([{"v": True}, {"v": None}], [{"v": 0}, {"v": "true"}]),
    ([{"v": 1}, {}], [{"v": "a"}, {"v": None}]),
    ([{"v": [1, "a", None]}, {"v": []}], [{"v": [True]}, {"v": 1}, {"v": [[1]]}]),
    ([{"v": [[1], [{"w": 1}]]}], [{"v": [1]}, {"v": [[{"w": "a"}]]}, {"v": [[{}]]}]),
    (
        [{"v": {"w": {"x": 1}}}, {"v": {}}, {"v": None}],
        [{"v": {"w": {}}}, {"v": {"w": None}}, {"v": {"y": 1}}],
    ),
    ([{"v": {}}, {"v": 1}], [{"v": "a"}, {"v": None}, {"v": True}]),
    ([*MAPS, {"v": {}}], [{"v": {"s1": "a"}}, {"v": {"s1": None}}]),
    ([NAMES], [{**NAMES, name: "a"} for name in NAMES]),
]
"""Records, and others that their interface must refuse."""


def test_interfaces_fit_their_samples_and_nothing_else() -> None:
    """The compiler accepts each record of a sample, and refuses records that differ from all of them."""
    lines = []
    for number, (sample, others) in enumerate(SAMPLES):
        bodies = [json.dumps(record).encode() for record in sample]
        lines.append(typescript_of("orders", f"T{number}", bodies))
        lines += [f"({json.dumps(record)}) satisfies T{number};" for record in sample]
        for record in others:
            lines += ["// @ts-expect-error", f"({json.dumps(record)}) satisfies T{number};"]
    program = PACKAGE / "build" / "types.ts"
    program.write_text("\n".join(lines))
    run(*COMPILE, str(program))


@pytest.fixture
def service(kafka: str, tmp_path: Path) -> Iterator[tuple[Service, str]]:
    """A query service and its topic, which has no records."""
    with served_topic(kafka, tmp_path) as served:
        yield served


def test_the_section_of_types(service: tuple[Service, str]) -> None:
    """The records of the page have the interface that it shows, and its program compiles with that."""
    query, topic = service
    blocks = [block for block in blocks_of(PAGE) if block.elsewhere.endswith("::test_the_section_of_types")]
    terminal, program = (block.text for block in blocks)
    publish, types = commands_of(terminal)
    arguments = shlex.split(publish.text)
    assert arguments[:3] == ["sowline", "publish", "orders"]
    with Client(query.url) as client:
        client.publish_all(topic, arguments[3:])
    command = types.text.replace("orders", topic)
    environment = os.environ | {
        "SOWLINE_URL": query.url,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.replace(topic, "orders").strip() == types.output
    build = PACKAGE / "build"
    (build / "orders.ts").write_text(done.stdout)
    (build / "openOrders.ts").write_text(program)
    run(*COMPILE, str(build / "openOrders.ts"))
