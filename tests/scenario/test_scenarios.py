"""Every file of this folder on a live pawld; tests/unit/test_scenario.c plays the same files on the library."""
from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from scenario import Player  # noqa: E402
import live  # noqa: E402

FILES = sorted(pathlib.Path(__file__).resolve().parent.glob("*.yaml"))
OWED = ("L02 L04 L08 L09 L10 L13 L15 L20 D09 D10 D12 P13 A01 A02 A04 A05 A07 A09 A10 A12 A13 A15 A16 C01 C03 C04 B20 S5 S7 S13 S14").split()


@pytest.mark.skipif(not live.have_binaries(), reason=f"no pawld in {live.BUILD}: build it, or set PAWL_BUILD")
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_over_the_wire(path):
    Player(path).play()


def test_each_report_has_its_scenario():
    told = " ".join(p.read_text().split("\n", 1)[0] for p in FILES)
    assert [x for x in OWED if x not in told.replace(",", " ").replace(".", " ").split()] == []
