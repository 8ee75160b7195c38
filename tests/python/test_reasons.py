"""The closed list of reason codes is one list: header, Python enum, docs/wire.md's error codes."""

import re

from conftest import ROOT

from pawl import ReasonCode
from pawl.reasons import HINTS


def header_rows():
    text = (ROOT / "include/pawl/reason.h").read_text()
    return re.findall(r'^\s*X\((\w+), "(\w+)"\)', text, re.M)


def test_enum_equals_the_header():
    rows = header_rows()
    assert len(rows) > 30
    assert [(c.name, c.value) for c in ReasonCode] == rows


def test_error_codes_of_the_wire_are_reasons():
    text = (ROOT / "docs/wire.md").read_text()
    words = re.search(r"Codes of errors: `([^`]+)`", text)[1].replace(",", " ").split()
    assert len(words) > 5 and set(words) <= {c.value for c in ReasonCode}


def test_the_wire_describes_each():
    part = (ROOT / "docs/wire.md").read_text().split("## Reason codes")[1].split("\n## ")[0]
    told = [code for row in part.splitlines() if row.startswith("| `") for code in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(told) == sorted(c.value for c in ReasonCode)


def test_hints_name_known_codes():
    assert set(HINTS) <= set(ReasonCode)
