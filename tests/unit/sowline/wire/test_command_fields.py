"""The fields that each command needs and uses."""

import pytest

from sowline.errors import SowlineError
from sowline.wire.command_fields import FIELDS, NODE_FIELDS, OF_ALL, require_of_client
from sowline.wire.request_fields import COMMANDS, RequestFields, read_fields


def test_each_command_of_clients_is_described() -> None:
    """By fields that requests have; those of gateways are left out."""
    assert set(FIELDS) == set(COMMANDS)
    known = set(RequestFields.__struct_fields__) - set(NODE_FIELDS)
    for fields in (OF_ALL, *FIELDS.values()):
        assert known.issuperset((*fields.needed, *fields.used))
        assert not set(fields.needed) & set(fields.used)
        assert fields.about.endswith(".")


def test_a_client_sets_no_field_of_gateways() -> None:
    """They would let it see the parts of answers that a gateway merges."""
    require_of_client(read_fields(b'{"command":"sow","topic":"orders"}'))
    for field, value in (("merges", b"true"), ("user", b'"ann"'), ("sample_n", b"5"), ("replaces", b"{}")):
        with pytest.raises(SowlineError, match=f"expected .*`{field}`.* only from a gateway") as error:
            require_of_client(read_fields(b'{"command":"sow","%s":%s}' % (field.encode(), value)))
        assert error.value.reason == "bad request"
