"""The attacks: each script here is one first move of an attacker, with what it gains. `python3 tests/attack/run.py [NAME…]`.

A script has POLICY (or None: the one of tests/support/live.py), STATED = {move: gain} and attack(daemon) -> {move: gain}. A gain is `NOTHING`
or a sentence that docs/threat-model.md admits. Any other gain fails, and so does a smaller one: the threat model must be true in both directions.
"""
from __future__ import annotations

import importlib
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
import live  # noqa: E402

NOTHING = "nothing"


def names() -> list[str]:
    return sorted(p.stem for p in HERE.glob("*.py") if p.stem not in ("run", "conftest") and not p.stem.startswith("test_"))


def run(name: str) -> list[str]:
    """Runs one attack, prints its gains, returns what was not as stated."""
    script = importlib.import_module(name)
    with live.Live(script.POLICY or live.POLICY) as d:
        d.start()
        gained = script.attack(d)
    wrong = []
    print(f"{name}: {script.__doc__.strip().splitlines()[0]}")
    for move, stated in script.STATED.items():
        got = gained.pop(move, "the move was not made")
        print(f"    {move:44} gained: {got}")
        if got != stated:
            wrong.append(f"{name}: {move}: gained {got!r}, stated is {stated!r}")
    wrong += [f"{name}: {move}: gained {got!r}, nothing is stated" for move, got in gained.items()]
    return wrong


def main(argv: list[str]) -> int:
    if not live.have_binaries():
        print(f"no pawld in {live.BUILD}: build it, or set PAWL_BUILD", file=sys.stderr)
        return 2
    wrong = [w for name in argv or names() for w in run(name)]
    for w in wrong:
        print("WRONG", w, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
