"""The roles of docs/entitlements.md are roles, and mean what the page says."""

import yaml

from sowline.serving.authorization.entitlements import Role, rights_of
from tests.docs.pages import blocks_of

PAGE = blocks_of("docs/entitlements.md")
DECLARED = next(yaml.safe_load(block.text) for block in PAGE if block.language == "yaml")
ROLES = {name: Role.model_validate(definition) for name, definition in DECLARED["roles"].items()}


def test_the_roles_of_the_page() -> None:
    """The first line that names a topic decides; what none names is refused."""
    desk = rights_of(ROLES, ["risk", "desk-ny"])
    assert desk.read.of("orders-eu").filter.text == "/desk = 'NY'"
    assert desk.read.of("prices").is_whole
    names = desk.read.of("clients").select
    assert names is not None
    assert names.apply(b'{"id":1,"name":"a","phone":2}') == b'{"id":1,"name":"a"}'
    assert ("orders" in desk.write, "orders-eu" in desk.write, desk.is_admin) == (True, False, False)
    operator = rights_of(ROLES, ["operator"])
    assert rights_of(ROLES, ["desk-ny", "risk"]).read.of("orders").filter.text == "/desk = 'NY'"
    assert (operator.is_admin, "orders" in operator.read) == (True, False)
