"""What a gateway makes of its settings."""

import re
from pathlib import Path

import pytest

from sowline.config.settings import Settings
from sowline.errors import SowlineError
from sowline_gateway.service import node_credentials


def test_a_gateway_proves_itself_with_the_files_of_its_settings(tmp_path: Path) -> None:
    """Files without certificates are refused by their names."""
    ca, certificate, key = (tmp_path / name for name in ("ca.pem", "cert.pem", "key.pem"))
    settings = Settings(nodes_ca_file=ca, nodes_cert_file=certificate, nodes_key_file=key)
    with pytest.raises(SowlineError, match=re.escape(f"in {ca}, {certificate}, {key}: ")):
        node_credentials(settings).tls()
