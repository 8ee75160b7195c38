"""What was measured on the way is said at the end, also when everything passed."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

# under a sanitizer the guest would emulate it and the foreign programs would wait for it; neither runs more of our code than the tests beside them
collect_ignore = ["test_guest.py", "test_foreign.py"] if os.environ.get("PAWL_TEST_SHORT") == "1" else []


def pytest_terminal_summary(terminalreporter):
    from watched import TOLD
    for line in TOLD:
        terminalreporter.write_line(f"measured: {line}")
