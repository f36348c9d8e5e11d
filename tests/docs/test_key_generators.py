"""The example of the page on key generators: installed as the page says, it makes the keys that the page says."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

from sowline.commands.key_generator import GROUP
from tests.docs.pages import blocks_of

SCRIPT = """
import json, sys
from pathlib import Path
from sowline.config.topics import load_topics

[topic] = load_topics(Path("topics.yaml")).topics
print(topic.key_rule.given(json.loads(sys.argv[1]), None))
"""


def test_the_example(tmp_path: Path) -> None:
    """A process that has the package on its path finds the generator by its name."""
    blocks = {block.language: block.text for block in blocks_of("docs/key-generators.md")}
    (tmp_path / "iban_keys.py").write_text(blocks["python"])
    (tmp_path / "topics.yaml").write_text(blocks["yaml"])
    points = tomllib.loads(blocks["toml"])["project"]["entry-points"][GROUP]
    info = tmp_path / "iban_keys-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: iban-keys\nVersion: 1.0\n")
    lines = [f"[{GROUP}]", *(f"{name} = {value}" for name, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    message = json.dumps({"account": "de89 3704 0044", "owner": "Ada"})
    path = ":".join([str(tmp_path), str(Path(__file__).parents[2])])
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, message],
        cwd=tmp_path,
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.stdout, run.returncode) == ("DE8937040044\n", 0), run.stderr
