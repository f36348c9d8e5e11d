"""Every block of every page is run, and does what the page shows; or says why not, and is on the list below."""

from collections import Counter
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, Block, blocks_of
from tests.docs.reader import Reader, Running
from tests.docs.terminal import commands_of

pytestmark = pytest.mark.random_order(disabled=True)

BLOCKS = [block for page in PAGES for block in blocks_of(page)]
NOT_RUN = {
    ("docs/api.md", "a sentence"): 1,
    ("docs/api.md", "an excerpt"): 2,
    ("docs/api.md", "needs Node"): 1,
    ("docs/api.md", "the JSON of a binary frame"): 1,
    ("docs/api.md", "the answer is binary"): 1,
    ("docs/client.md", "the client would refuse such a record itself; another producer has written it"): 1,
    ("docs/client.md", "needs a schema registry"): 1,
    ("docs/client.md", "prints measurements"): 1,
    ("docs/aggregation.md", "a grammar; the tables of the page are run"): 1,
    ("docs/bookmarks.md", "comes after ten seconds without a message"): 1,
    ("docs/gateway.md", "a drawing"): 1,
    ("docs/demo.md", "a drawing"): 1,
    ("docs/guarantees.md", "takes as long as it checks"): 1,
    ("docs/guarantees.md", "kills services"): 1,
    ("docs/definitions.md", "needs a system with these topics"): 2,
    ("docs/definitions.md", "the ports and hashes differ in each run"): 1,
    ("docs/definitions.md", "asks on a terminal"): 1,
    ("docs/deploy.md", "runs until it is stopped"): 1,
    ("docs/deploy.md", "needs Docker"): 2,
    ("docs/deploy.md", "needs a Kafka with TLS and SASL"): 1,
    ("docs/deploy.md", "needs a cluster"): 1,
    ("docs/deploy.md", "needs four nodes"): 1,
    ("docs/emodb.md", "a grammar; the tables of the page are run"): 1,
    ("docs/enrichment.md", "a grammar; the tables of the page are run"): 1,
    ("docs/entitlements.md", "needs a service with an access file"): 1,
    ("docs/faults.md", "needs a disk that is full"): 1,
    ("docs/faults.md", "needs a topic that is being filled"): 1,
    ("docs/faults.md", "needs two workers in one directory"): 1,
    ("docs/filters.md", "a grammar; the tables of the page are run"): 1,
    ("docs/history.md", "a formula"): 1,
    ("docs/pipeline-cluster.md", "needs Docker and a cluster"): 1,
    ("docs/pipeline-cluster.md", "needs a cluster"): 2,
    ("docs/pipeline.md", "what a run of minutes prints"): 1,
    ("docs/producers.md", "needs Go and franz-go"): 1,
    ("docs/producers.md", "needs Node and kafkajs"): 1,
    ("docs/producers.md", "needs Rust and rdkafka"): 1,
    ("docs/producers.md", "what the programs read"): 1,
    ("docs/runbooks.md", "needs a cluster"): 2,
    ("docs/traces.md", "needs a collector"): 2,
    ("docs/api.md", "has to meet a query that is still running"): 1,
    ("docs/api.md", "what falls into one interval depends on the moment"): 1,
}
"""What is not run, and why: how many blocks of a page for a reason that it gives."""

LIVE = sorted({block.page for block in BLOCKS if not block.excuse and not block.elsewhere})


def tools_of(page: str) -> set[str]:
    """Return the tools that the commands of a page need beyond ours."""
    run = [block for block in BLOCKS if block.page == page and not block.excuse and not block.elsewhere]
    texts = [block.text for block in run if block.language == "console"]
    words = {word for text in texts for command in commands_of(text) for word in command.words}
    return words & {"curl", "kcat"}


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.needs(*tools_of(page))) for page in LIVE]
)
def test_a_page_does_what_it_shows(page: str, running: Running, tmp_path: Path) -> None:
    """From its top to its end: commands print what is shown, scripts too, messages are answered as shown."""
    Reader(page, running, tmp_path).read()


def test_what_is_not_run_is_on_the_list() -> None:
    """Anyone who adds a block that is not run adds it here, too."""
    assert Counter((block.page, block.excuse) for block in BLOCKS if block.excuse) == NOT_RUN


@pytest.mark.parametrize(
    "block", [block for block in BLOCKS if block.elsewhere], ids=lambda block: block.location
)
def test_what_is_run_elsewhere_is(block: Block) -> None:
    """The test that a block names is there, and reads the page."""
    path, _, name = block.elsewhere.partition("::")
    test = (ROOT / path).read_text()
    assert f"def {name}(" in test
    assert Path(block.page).name in test
