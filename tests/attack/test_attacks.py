"""pytest's view of run.py: one test an attack."""
import pytest

import run


@pytest.mark.parametrize("name", run.names())
def test_attack(name):
    if not run.live.have_binaries():
        pytest.skip(f"no pawld in {run.live.BUILD}: build it, or set PAWL_BUILD")
    assert run.run(name) == []
