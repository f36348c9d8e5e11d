"""What all simulations share."""

import gc

import pytest


@pytest.fixture(autouse=True, scope="module")
def _what_other_tests_left() -> None:
    """Keep the heap out of garbage collection: a materializer collects after each worker, and simulations have many.

    Twelve seeds of logs took 158 seconds at the end of a whole run, and 4 without what other tests had left.
    """
    gc.collect()
    gc.freeze()
