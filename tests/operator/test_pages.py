"""Every test that a promise or a decision names exists, and is where the page says."""

import pathlib
import re

TOP = pathlib.Path(__file__).resolve().parents[2]


def rows(page):
    return [line for line in (TOP / "docs" / page).read_text().splitlines() if line.startswith("| P") or "test_" in line]


def test_every_test_that_a_page_names_exists():
    files = [p for p in (TOP / "tests").rglob("*") if p.suffix in (".c", ".py", ".yaml")]
    known = {p.stem for p in files} | {w for p in files if p.suffix != ".yaml" for w in re.findall(r"\btest_\w+(?=[()])", p.read_text())}
    named = {n for page in ("promises.md", "architecture.md") for row in rows(page) for n in re.findall(r"\btest_\w+", row)}
    assert len(named) > 100
    assert sorted(named - known) == []


def test_it_is_in_the_file_that_they_name():
    some = r"(?:\w+/)?[\w-]+\.(?:c|py)"
    wrong = []
    for page in ("promises.md", "architecture.md"):
        for files, inside in re.findall(rf"({some}(?: and {some})*) \(([^)]*)\)", "\n".join(rows(page))):
            paths = [TOP / "tests" / f for f in files.split(" and ")]
            text = "\n".join(p.read_text() for p in paths if p.exists())
            wrong += [f"{page}: {files}: {n}" for n in re.findall(r"`(test_\w+)`", inside) if f"{n}(" not in text and f"({n})" not in text]
    assert wrong == []
