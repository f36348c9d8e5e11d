"""The JSON that pages show is as the protocol description has it."""

import pytest

from tests.described import checked_message, checked_native, checked_request
from tests.docs.pages import PAGES, Block, blocks_of
from tests.docs.transcript import is_of_server, messages_in

BLOCKS = [
    block
    for page in PAGES
    for block in blocks_of(page)
    if block.language == "json" and '"command"' in block.text
]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.location)
def test_messages_on_pages_are_described(block: Block) -> None:
    """What a client says there, and what the service answers."""
    text = block.text.replace('"hash": "…"', f'"hash": "{"0" * 16}"')
    for message, _ in messages_in(text):
        if "size" in message:
            checked_native(message)
        elif "command" in message:
            (checked_message if is_of_server(message) else checked_request)(message)
