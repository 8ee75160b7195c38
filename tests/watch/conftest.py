"""Shared by tests/watch: a live pawld whose watch door a scripted launcher speaks to. What needs the kernel's programs says so (`kernel`)."""
from __future__ import annotations

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import live  # noqa: E402

def tier(d: live.Live) -> str:
    return d.status()["watch"]["tier"] or "D"


@pytest.fixture
def kernel():
    """Skips, or fails where everything is required, unless this machine's kernel stops what a policy denies."""
    with live.Live() as d:
        d.start()
        have = tier(d)
    if have not in ("A", "B"):
        if os.environ.get("PAWL_REQUIRE") == "all":
            pytest.fail(f"tier {have}: programs cannot be watched and stopped here")
        pytest.skip(f"tier {have}: programs cannot be watched and stopped here")


def pytest_collection_modifyitems(items):
    if not live.PAWLD.exists():
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"no pawld in {live.BUILD}: build it, or set PAWL_BUILD"))
