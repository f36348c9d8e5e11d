"""Sources of pipelines: how much of them a micro-batch takes."""

import pytest

from sowline_ingest.sources import (
    FILE_BYTES_PER_BATCH,
    OFFSETS_PER_BATCH,
    batch_limit,
    file_options,
    without_limits,
)


@pytest.mark.parametrize("rows_per_second", [None, 1e9])
def test_without_a_limit(rows_per_second: float | None) -> None:
    """A micro-batch has a fixed size, also where the limit would allow for a larger one."""
    assert batch_limit({"a": "1"}, rows_per_second, of_files=True) == {
        "maxBytesPerTrigger": str(FILE_BYTES_PER_BATCH),
        "a": "1",
    }
    kafka = batch_limit({}, rows_per_second, of_files=False)
    assert kafka == {"maxOffsetsPerTrigger": str(OFFSETS_PER_BATCH)}


def test_with_a_limit() -> None:
    """It has what may be written in ten seconds, and always something."""
    assert batch_limit({}, 2000.0, of_files=False) == {"maxOffsetsPerTrigger": "20000"}
    assert batch_limit({}, 2000.0, of_files=True) == {"maxBytesPerTrigger": "640000"}
    assert batch_limit({}, 0.001, of_files=False) == {"maxOffsetsPerTrigger": "1"}


@pytest.mark.parametrize("name", ["maxFilesPerTrigger", "maxBytesPerTrigger"])
def test_what_the_options_say_counts(name: str) -> None:
    """They say it in files or in bytes, and Spark takes only one of the two."""
    assert batch_limit({name: "3"}, 2000.0, of_files=True) == {name: "3"}
    own = {"maxOffsetsPerTrigger": "3"}
    assert batch_limit(own, 2000.0, of_files=False) == own


@pytest.mark.parametrize("name", ["maxfilespertrigger", "MAXBYTESPERTRIGGER", "maxoffsetspertrigger"])
def test_the_case_of_options_does_not_count(name: str) -> None:
    """As in Spark, which would refuse a second limit, and apply an option that is spelled in another case."""
    own = {name: "3"}
    assert batch_limit(own, 2000.0, of_files="offsets" not in name) == own
    assert without_limits(own) == {}
    assert file_options({"LatestFirst": "true", "multiLine": "true"}) == {"LatestFirst": "true"}
