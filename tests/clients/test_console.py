"""The console has the TypeScript client, as a file that is built and committed."""

import pytest

from tests.clients.typescript import npm

pytestmark = [pytest.mark.needs("node"), pytest.mark.usefixtures("package")]


def test_the_committed_file_is_made_of_these_sources() -> None:
    """A change of the client reaches the console. The lock file pins what builds it, so the bytes agree."""
    npm("run", "console", "--", "--check")
