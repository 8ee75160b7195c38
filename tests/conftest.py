"""For every folder of live tests: what was skipped is said aloud at the end; under PAWL_REQUIRE=all it has failed."""
import os
import sys

import pytest


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    live = sys.modules.get("live")  # of those that started a pawld
    if live:
        live.clear_killed()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.skipped and os.environ.get("PAWL_REQUIRE") == "all":
        report.outcome, report.longrepr = "failed", f"PAWL_REQUIRE=all, and this could not run: {report.longrepr}"


def pytest_terminal_summary(terminalreporter):
    rows = {r.longrepr[2] if isinstance(r.longrepr, tuple) else str(r.longrepr) for r in terminalreporter.stats.get("skipped", [])}
    for row in sorted(rows):
        terminalreporter.write_line(f"!! {row}", yellow=True)
