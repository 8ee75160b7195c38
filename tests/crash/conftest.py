"""Shared by tests/crash: the path to tests/support, and a skip that says why when there is no daemon to run."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import live  # noqa: E402


def pytest_collection_modifyitems(items):
    if not live.have_binaries():
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"no pawld in {live.BUILD}: build it, or set PAWL_BUILD"))


@pytest.fixture
def daemon():
    with live.Live() as d:
        d.start()
        yield d


@pytest.fixture
def folder():
    """Initialised, not started."""
    with live.Live() as d:
        yield d
