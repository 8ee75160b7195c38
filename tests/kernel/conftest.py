"""What was measured on the way is said at the end, also when everything passed."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))


def pytest_terminal_summary(terminalreporter):
    from watched import TOLD
    for line in TOLD:
        terminalreporter.write_line(f"measured: {line}")
