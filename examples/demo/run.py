"""`make demo`: a real agent in front of a real pawld, in build/demo/. Standard library only; exits non-zero when anything is not as promised.

What it shows: calls allowed, held for review and denied, with reason and number; money spent to its limit; pawld killed with SIGKILL in
the middle of a call and nothing lost or given back; the signed log verified, and one flipped byte in a copy of it caught.
Leaves build/demo/{policy.yaml,state/,log/,entry.vkey} behind.
"""
from __future__ import annotations

import argparse
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.chdir(ROOT)  # short relative paths: a socket's path has room for 107 bytes
DIR = pathlib.Path("build/demo")
SOCKET = DIR / "run" / "agent.sock"
COPY = pathlib.Path("build/demo-tampered")
WAIT = 20.0

VERIFY_OK, VERIFY_TAMPERED = 0, 12


class Failed(Exception):
    """An expectation that did not hold."""


def expect(what: str, ok: object) -> None:
    if not ok:
        raise Failed(what)


# ---- pictures ----

COLOURED = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
COLOURS = {"allow": "32", "review": "33", "deny": "31", "head": "1", "note": "36"}


def paint(kind: str, text: str) -> str:
    return f"\x1b[{COLOURS[kind]}m{text}\x1b[0m" if COLOURED else text


def say(text: str = "") -> None:
    print(text, flush=True)


def head(text: str) -> None:
    say()
    say(paint("head", text))


def row(n: object, call: str, verdict: str, reason: str, number: str, left: str) -> None:
    colour = paint(verdict, f"{verdict:8}") if verdict in COLOURS else f"{verdict:8}"
    say(f"{n:>3}  {call:33.33} {colour}{reason:20} {number:20} {left}".rstrip())


def note(text: str) -> None:
    say(textwrap.fill(text, 110, initial_indent="     ", subsequent_indent="     "))


# ---- pawld ----


class Daemon:
    """The two processes of one pawld. Only what was started here is ever killed."""

    def __init__(self, program: pathlib.Path) -> None:
        self.program = program
        self.process: subprocess.Popen[bytes] | None = None
        self.said = DIR / "pawld.err"

    def start(self) -> None:
        seen = self.said.stat().st_size if self.said.exists() else 0
        with self.said.open("ab") as err:
            self.process = subprocess.Popen([str(self.program), "--dir", str(DIR)], stdin=subprocess.DEVNULL, stdout=err, stderr=err)
        end = time.monotonic() + WAIT
        while b"pawld: ready: agent " not in (text := self.said.read_bytes()[seen:]):
            if self.process.poll() is not None or time.monotonic() > end:
                raise Failed(f"pawld does not get ready:\n{text.decode(errors='replace').strip()}")
            time.sleep(0.01)

    def children(self) -> list[int]:
        found = []
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                after = stat.read_text(errors="replace").rsplit(")", 1)[1].split()
            except (OSError, IndexError):
                continue
            if self.process is not None and int(after[1]) == self.process.pid and after[0] != "Z":
                found.append(int(stat.parent.name))
        return found

    def kill_both(self) -> int:
        """The watcher first: it would start the rest again. Returns how many processes were killed."""
        assert self.process is not None
        rest = self.children()
        self.process.kill()
        for pid in rest:
            kill(pid)
        self.process.wait()
        wait_for("the killed processes are gone", lambda: not any(alive(pid) for pid in rest))
        self.process = None
        return 1 + len(rest)

    def kill_rest(self) -> None:
        rest = self.children()
        expect("pawld is two processes", rest)
        for pid in rest:
            kill(pid)
        wait_for("the watcher starts the rest again", lambda: set(self.children()) - set(rest) and answers())

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        try:
            return self.process.wait(WAIT)
        finally:
            self.end()

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill_both()
        self.process = None


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def alive(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()[0] != "Z"
    except (OSError, IndexError):
        return False


def wait_for(what: str, test: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT
    while not test():
        if time.monotonic() > end:
            raise Failed(f"waited {WAIT:g} s for: {what}")
        time.sleep(0.02)


def answers() -> bool:
    try:
        return bool(pawl.hello(socket=SOCKET, timeout=1.0))
    except pawl.Unavailable:
        return False


def command(*words: str, want: int | None = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    if want is not None and done.returncode != want:
        raise Failed(f"{' '.join(words)}: status {done.returncode}, not {want}\n{done.stdout}{done.stderr}".strip())
    return done


def show(done: subprocess.CompletedProcess[str]) -> None:
    say(f"$ {' '.join(str(a) for a in done.args)}")
    for line in (done.stdout + done.stderr).splitlines():
        say(f"  {line}")
    say(f"  exit status {done.returncode}")


# ---- the run ----

# What the policy in examples/agent says to each step of the plan: verdict and reason code.
EXPECTED = [
    ("allow", "ok"), ("allow", "ok"), ("allow", "ok"), ("allow", "ok"), ("allow", "ok"), ("allow", "ok"), ("allow", "ok"),
    ("deny", "loop_repeat"), ("review", "rule"), ("deny", "default"), ("deny", "default"), ("deny", "rule"),
    ("allow", "ok"), ("allow", "ok"), ("allow", "ok"), ("allow", "ok"), ("deny", "budget"), ("allow", "ok"),
]
KEPT = ("decisions", "executions", "remaining", "open", "reviews", "denials", "ended")


def kept(session: Any) -> dict[str, Any]:
    """What a crash may not change: all of session.state but the clock's part of it."""
    state = session.state()
    missing = [k for k in KEPT if k not in state]
    expect(f"session.state tells {', '.join(missing)}", not missing)
    return {k: state[k] for k in KEPT}


def run_amount(state: dict[str, Any], what: str) -> str:
    return f"{state['remaining']['run'][what]} {state['remaining']['run']['unit']}"


def number(e: Any, charged: Decimal) -> str:
    """The number that a row is about: what was charged, the card that waits, or the counter that ran into its limit."""
    if e is None:
        return f"charged {charged.normalize():f}"
    if getattr(e, "review", None):
        return f"waits as {e.review}"
    return f"{e.counter} of {e.limit} {e.unit or ''}".strip() if getattr(e, "limit", None) is not None else ""


def crash_in_call(daemon: Daemon, session: Any) -> None:
    """An allowed call is running, its reservation is open, and pawld dies as hard as a process can."""
    before = kept(session)
    expect("the running call is open before the kill", len(before["open"]) == 1)
    killed = daemon.kill_both()
    expect("no pawld, no verdict", not answers())
    daemon.start()
    after = kept(session)
    say(paint("note", f"     the next call is allowed and runs; SIGKILL to {killed} processes of pawld in the middle of it; started again:"))
    for word, state in (("before", before), ("after", after)):
        say(paint("note", f"       {word + ':':8} used {run_amount(state, 'used')}, open {', '.join(state['open'])}, {state['decisions']} decisions"))
    expect(f"nothing lost, nothing given back: {before} is {after}", before == after)


def steps(daemon: Daemon, session: Any) -> None:
    plan = agent.plan("docs/wire.md")
    expect("one expectation a step", len(plan) == len(EXPECTED))
    crashed: list[str] = []

    def during_read(path: str) -> None:
        if path == "docs/wire.md" and not crashed:
            crashed.append(path)
            crash_in_call(daemon, session)

    agent.during_read = during_read
    row("", "call", "verdict ", "reason", "number", "run has left")
    used = Decimal(0)
    for n, (outcome, (verdict, code)) in enumerate(zip(agent.run(plan), EXPECTED), 1):
        e, state = outcome.refusal, kept(session)
        got = str(getattr(e, "code", "ok" if e is None else type(e).__name__))
        rule = getattr(e, "rule", None)
        charged, used = Decimal(state["remaining"]["run"]["used"]) - used, Decimal(state["remaining"]["run"]["used"])
        row(n, outcome.step.shown, outcome.verdict, f"{got} {rule}" if rule else got, number(e, charged), run_amount(state, "remaining"))
        if (outcome.verdict, got) != (verdict, code):
            raise Failed(f"step {n} is to be {verdict} {code}; it was {outcome.verdict} {got}: {e}")
        expect(f"step {n}: only an allowed call is charged, not {charged}", (charged > 0) == (verdict == "allow"))
        if got in ("loop_repeat", "budget"):
            note(str(e))
    expect("the kill has happened", crashed)


def demo(build: pathlib.Path) -> None:
    tool, daemon = str(build / "pawl"), Daemon(build / "pawld")
    head("1. A folder with policy, keys and state")
    command(tool, "policy", "check", "examples/agent/policy.yaml")
    DIR.mkdir(mode=0o700)
    shutil.copy("examples/agent/policy.yaml", DIR / "policy.yaml")
    (DIR / "policy.yaml").chmod(0o600)
    show(command(tool, "init", "--dir", str(DIR), "--name", "demo.example/pawl/1"))
    try:
        daemon.start()
        said = pawl.hello(socket=SOCKET)
        say(f"{said['server']} answers at {SOCKET}; policy \"{said['policy']['name']}\", default {said['default']}, watch {said['watch']['state']}")

        head("2. An agent reads, counts and summarises this repository; every call asks first")
        session = pawl.Session(root=".", socket=SOCKET, labels={"run": "demo"})
        with session:
            steps(daemon, session)

            head("3. The part that talks to agents is killed alone; the watcher starts it again")
            before = kept(session)
            daemon.kill_rest()
            after = kept(session)
            say(f"used {run_amount(before, 'used')} before, {run_amount(after, 'used')} after; "
                f"{after['decisions']} decisions, {len(after['reviews'])} review pending")
            expect(f"nothing lost, nothing given back: {before} is {after}", before == after)
            receipt = session.ask("text.count", {"path": "Makefile"})
            session.settle(receipt, "ok")
        status = daemon.stop()
        expect(f"pawld stops on TERM with status 0, not {status}", status == 0)
    finally:
        daemon.end()

    head("4. The log, checked against the last answer the agent was given")
    entry = receipt.log["entry"]
    text = entry[: entry.rindex("\n\n") + 1]
    anchor = f"{receipt.log['seq']}:{hashlib.sha256(text.encode()).hexdigest()}"
    show(command(tool, "log", "verify", "--dir", str(DIR), "--at-least", anchor, want=VERIFY_OK))

    head("5. One flipped byte in a copy of it")
    COPY.mkdir(mode=0o700)
    shutil.copytree(DIR / "log", COPY / "log")
    shutil.copy(DIR / "entry.vkey", COPY / "entry.vkey")
    segment = sorted((COPY / "log").glob("journal-*"))[0]
    data = bytearray(segment.read_bytes())
    word = b'"verdict":"deny"'
    at = data.index(word) + word.index(b"deny")
    data[at] ^= 1
    segment.write_bytes(data)
    say(f"{segment}: byte {at}, the d of the first \"deny\", is now {chr(data[at])!r}")
    show(command(tool, "log", "verify", "--dir", str(COPY), want=VERIFY_TAMPERED))

    for name in ("policy.yaml", "state", "log", "entry.vkey"):
        expect(f"{DIR / name} is left behind", (DIR / name).exists())
    expect("entry.vkey is one line", (DIR / "entry.vkey").read_text().count("\n") == 1)


def main() -> int:
    ap = argparse.ArgumentParser(description="the demo that `make demo` runs")
    ap.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/gcc-plain"), help="folder with pawld and pawl")
    build = ap.parse_args().build
    began = time.monotonic()
    for name in ("pawld", "pawl"):
        if not (build / name).exists():
            say(f"demo: FAILED: there is no {build / name} yet: run `make`")
            return 1
    for old in (DIR, COPY):
        shutil.rmtree(old, ignore_errors=True)
    try:
        demo(build)
    except (Failed, pawl.PawlError, OSError, subprocess.SubprocessError, KeyError) as e:
        say()
        said = (DIR / "pawld.err").read_text(errors="replace").splitlines()[-5:] if (DIR / "pawld.err").exists() else []
        for line in said:
            say(f"  pawld.err: {line}")
        say(f"demo: FAILED: {e if isinstance(e, (Failed, pawl.PawlError)) else f'{type(e).__name__}: {e}'}")
        return 1
    say()
    say(f"demo: all as promised, in {time.monotonic() - began:.1f} s. Left in {DIR}/: policy.yaml state/ log/ entry.vkey")
    return 0


sys.path[:0] = [str(ROOT / "hooks" / "python"), str(ROOT / "examples" / "agent")]
try:
    import pawl
    import agent
except ImportError as missing:
    sys.exit(f"demo: FAILED: the Python package is not there yet: {missing}")

if __name__ == "__main__":
    sys.exit(main())
