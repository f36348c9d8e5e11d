"""What the tests of clients share."""

import pytest

from tests.clients.typescript import build


@pytest.fixture(scope="module")
def package() -> None:
    """The TypeScript client, installed and built."""
    build()
