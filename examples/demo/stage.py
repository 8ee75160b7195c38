"""What the demo stands on: its folder, one pawld to start and kill, commands to run and show, expectations, lines on the screen."""
from __future__ import annotations

import os
import pathlib
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.chdir(ROOT)  # short relative paths: a socket's path has room for 107 bytes
DIR = pathlib.Path("build/demo")
SOCKET = DIR / "run" / "agent.sock"
COPY = pathlib.Path("build/demo-tampered")
WAIT = 20.0

sys.path[:0] = [str(ROOT / "hooks" / "python"), str(ROOT / "examples" / "agent")]
try:
    import pawl
except ImportError as missing:
    sys.exit(f"demo: FAILED: the Python package is not there yet: {missing}")


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
    say(f"$ {shlex.join(str(a) for a in done.args)}")
    for line in (done.stdout + done.stderr).splitlines():
        say(f"  {line}")
    say(f"  exit status {done.returncode}")
