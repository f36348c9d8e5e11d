"""Requests that write: what can be seen to be wrong is refused before it is written."""

import pytest

from sowline.config.topics import parse_topics
from sowline.errors import SowlineError
from sowline.serving.authorization.entitlements import EVERYTHING
from sowline.serving.writes.requests import Definitions, posted_writes, writes_of
from sowline.wire.request import Write
from sowline.wire.request_parser import parse_request


@pytest.fixture
def topics() -> Definitions:
    """A topic with a SOW and one without."""
    parsed = parse_topics("topics: [{name: orders, key: /id}, {name: ticks, sow: false}]")
    return {topic.name: topic for topic in parsed.topics}


def test_only_records_are_deleted(topics: Definitions) -> None:
    """Of a topic without any nothing is, by neither API; of a pattern of topics, those with a SOW are meant."""
    [posted] = posted_writes(topics, "^.*", "sow_delete", {"filter": "1=1"}, (), EVERYTHING)
    assert posted.write.topic.name == "orders"
    with pytest.raises(SowlineError, match="got ticks") as error:
        posted_writes(topics, "^t.*", "sow_delete", {"filter": "1=1"}, (), EVERYTHING)
    assert error.value.reason == "no sow"
    request = parse_request(
        Write, b'{"command": "sow_delete", "command_id": "1", "topic": "ticks", "filter": "1=1"}'
    )
    with pytest.raises(SowlineError, match="got ticks"):
        writes_of(topics, request, EVERYTHING)


@pytest.mark.parametrize(
    "given",
    [
        {"publisher": "p", "sequence": "x"},
        {"publisher": "p"},
        {"sequence": "1"},
        {"correlation": "c" * 251},
    ],
)
def test_headers_that_can_t_be_are_refused(topics: Definitions, given: dict[str, str]) -> None:
    """The materializer would; but who does not wait for it would not hear of that."""
    with pytest.raises(SowlineError, match="expected") as error:
        posted_writes(topics, "orders", "publish", given, [b'{"id": 1}'], EVERYTHING)
    assert error.value.reason == "bad header"


@pytest.mark.parametrize("are_lines", [True, False])
@pytest.mark.parametrize("command", ["publish", "delta_publish"])
def test_a_view_takes_no_commands(command: str, are_lines: bool) -> None:
    """Also where lines with keys would be read first: the sentence is the same for those who wait for the outcome."""
    parsed = parse_topics(
        "topics: [{name: orders, key: /id}]\nviews: [{name: v, from: orders, filter: /id > 1}]"
    )
    topics = {topic.name: topic for topic in parsed.topics}
    with pytest.raises(SowlineError) as error:
        posted_writes(topics, "v", command, {}, [b'{"id": 1}'], EVERYTHING, are_lines=are_lines)
    assert (error.value.reason, error.value.message) == (
        "view",
        "expected a topic that takes commands, got the view v: write to orders, which it is computed from",
    )


@pytest.mark.parametrize("given", [{}, {"filter": "1=1", "sow_key": "7"}])
def test_a_delete_names_what_it_deletes_once(topics: Definitions, given: dict[str, str]) -> None:
    """A forgotten parameter deletes nothing."""
    with pytest.raises(SowlineError, match=r"^expected exactly one of ") as error:
        posted_writes(topics, "orders", "sow_delete", given, (), EVERYTHING)
    assert error.value.reason == "bad request"
