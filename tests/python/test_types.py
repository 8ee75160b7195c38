"""The package is typed: strict mypy is silent about it, and callers keep their signatures."""

import subprocess
import sys

from conftest import ROOT, missing

CALLER = """
import pawl

@pawl.guard
def bare(x: int) -> str: return str(x)

@pawl.guard("t", budget="0.50", estimate=lambda x: {"tokens": 3}, cost=lambda r: "0.1")
async def full(x: int) -> bytes: return b""

reveal_type(bare)
reveal_type(full)
bare("no")
pawl.guard(budget=0.5)
"""


def mypy(*args: str) -> "subprocess.CompletedProcess[str]":
    try:
        import mypy  # noqa: F401
    except ImportError:
        missing("mypy, the check of the types")
    cache = ROOT / "build" / "py" / "mypy"
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache), *args],
        cwd=ROOT / "hooks/python",
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_strict():
    got = mypy("pawl")
    assert got.returncode == 0, got.stdout


def test_callers_keep_their_signatures(folder):
    (folder / "caller.py").write_text(CALLER)
    out = mypy(str(folder / "caller.py")).stdout.replace("builtins.", "").replace("typing.", "")
    assert "def (x: int) -> str" in out and "def (x: int) -> Coroutine[Any, Any, bytes]" in out
    assert out.count("error:") == 2 and 'incompatible type "str"; expected "int"' in out and '"float"' in out
