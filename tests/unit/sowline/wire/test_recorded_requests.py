"""Two thousand requests, good and bad, get the answers that were written down."""

import pytest

from tests.unit.sowline.wire.answered_requests import answers_to, written_down
from tests.unit.sowline.wire.recorded_requests import APIS, COUNT, recorded


@pytest.mark.parametrize("api", APIS)
def test_answers_are_as_they_were(api: str) -> None:
    """Errors, acknowledgements, records, commands for Kafka, and what a gateway asks of nodes, byte for byte."""
    of_api = [
        (asked, answers)
        for asked, answers in zip(recorded(), written_down(), strict=True)
        if asked.api == api
    ]
    assert len(of_api) > COUNT // 100
    found = list(answers_to([asked for asked, _ in of_api]))
    differing = [
        (asked.frames, before, now)
        for (asked, before), now in zip(of_api, found, strict=True)
        if before != now
    ]
    assert differing == []
