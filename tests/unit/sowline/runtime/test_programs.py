"""The programs that are started by the names of their modules."""

from importlib.util import find_spec

import pytest

from sowline.runtime.programs import Program


@pytest.mark.parametrize("program", Program)
def test_each_program_can_be_run(program: Program) -> None:
    """A package has a `__main__`, and a module is there."""
    found = find_spec(program)
    assert found is not None
    if found.submodule_search_locations is not None:
        assert find_spec(f"{program}.__main__") is not None
