"""The TypeScript package: types, tests, weight, what is published, and its page, on a real service."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.typescript import PACKAGE, npm, run, served_topic, sources
from tests.docs.pages import blocks_of
from tests.integration.services import Service

pytestmark = [pytest.mark.needs("node"), pytest.mark.usefixtures("package")]

PAGE = "docs/typescript.md"
REGISTRY = "https://registry.npmjs.org/"


def test_its_own_tests() -> None:
    """They run over the compiled modules; the compiler finds no error of types in them, nor in the package."""
    npm("test")


def test_its_weight() -> None:
    """An import of the package is at most 13.7 kB, minified and gzipped."""
    npm("run", "size")


def test_what_is_published() -> None:
    """Each module with its source, its types and its map, and nothing else. There are no runtime dependencies."""
    (packed,) = json.loads(npm("pack", "--dry-run", "--json", "--ignore-scripts"))
    names = [path.relative_to(PACKAGE / "src").with_suffix("") for path in sources()]
    built = {f"dist/{name}{end}" for name in names for end in (".js", ".js.map", ".d.ts", ".d.ts.map")}
    written = {f"src/{name}.ts" for name in names}
    files = {file["path"] for file in packed["files"]}
    assert files == built | written | {"package.json", "README.md", "LICENSE"}
    manifest = json.loads((PACKAGE / "package.json").read_text())
    assert "dependencies" not in manifest


def test_the_lock_file_names_the_public_registry() -> None:
    """Each package is there with its checksum, and without the address of a private registry."""
    packages: dict[str, Any] = json.loads((PACKAGE / "package-lock.json").read_text())["packages"]
    locked = [package for name, package in packages.items() if name]
    assert locked
    assert [package for package in locked if not package["integrity"].startswith("sha512-")] == []
    assert [url for one in locked if not (url := one.get("resolved", REGISTRY)).startswith(REGISTRY)] == []


@pytest.fixture(scope="module")
def service(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    """A query service and its topic."""
    with served_topic(kafka, tmp_path_factory.mktemp("typescript")) as served:
        yield served


def test_the_page(service: tuple[Service, str]) -> None:
    """The blocks of docs/typescript.md are one program with sound types, which prints what its comments have."""
    query, topic = service
    blocks = [block for block in blocks_of(PAGE) if block.elsewhere.endswith("::test_the_page")]
    text = "".join(block.text for block in blocks)
    text = text.replace("https://sow.example", query.url).replace('"orders"', f'"{topic}"')
    program = PACKAGE / "build" / "page.mts"
    program.write_text(text)
    options = ("--strict", "--target", "es2022", "--module", "nodenext", "--types", "node", "--skipLibCheck")
    run("npx", "tsc", *options, str(program))
    expected = re.findall(r"console\.log\(.*\); // (.*)", text)
    assert expected
    assert _without_topic(run("node", str(program.with_suffix(".mjs"))), topic).splitlines() == expected


def _without_topic(text: str, topic: str) -> str:
    return text.replace(topic, "orders")


def test_a_global_websocket_is_enough(service: tuple[Service, str], tmp_path: Path) -> None:
    """As in browsers, Deno, Bun and newer versions of Node."""
    query, topic = service
    program = tmp_path / "program.mjs"
    program.write_text(
        f"""import {{ connect }} from "{PACKAGE.as_uri()}/dist/index.js";
        const client = connect("{query.url}");
        const records = await client.sow("{topic}", {{ filter: "/id = 'none'" }}).records();
        console.log(client.status, records.length);
        client.close();
        """
    )
    done = subprocess.run(
        ["node", "--experimental-websocket", str(program)], stdout=subprocess.PIPE, text=True, check=True
    )
    assert done.stdout == "open 0\n"
