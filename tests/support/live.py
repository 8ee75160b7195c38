"""A pawld on a folder of its own: made with `pawl init`, started, killed, read back. For tests/crash, tests/attack and tests/bench.

Only what a user has is used: the two programs, the sockets, the files. PAWL_BUILD names the build folder.
"""
from __future__ import annotations

import base64
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from sp import Gone, Session, Stream  # noqa: E402,F401

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("PAWL_BUILD", ROOT / "build" / "gcc-plain")).resolve()
PAWL, PAWLD = BUILD / "pawl", BUILD / "pawld"
SLOW = float(os.environ.get("PAWL_SLOW", "1"))  # under a sanitizer or valgrind: waits are this much longer

POLICY = """pawl: 1
name: live-test
default: deny
tools:
  work: {}
  idle: {}
  fixed: {cost: 0.01 USD}
  given: {cost: 0.01 USD, refund: true}
rules:
  - {id: work, allow: [work, idle, fixed, given]}
  - {id: ask, review: [held]}
  - {id: never, deny: [forbidden]}
budgets:
  run: {per: session, limit: 1000 USD}
  all: {per: agent, limit: 100000 USD}
sessions: {lease: 1h, calls: 10000000}
limits: {decide: 1000000/s, burst: 1000000}
...
"""


READY = "pawld: ready: agent "
WATCH_RUN = pathlib.Path("/run/pawl-watch")
STARTED: set[str] = set()  # what the watchers that were started call theirs below WATCH_RUN; see clear_killed()
# what a sanitizer writes: a daemon that is killed next has no exit status to tell of it
ALARM = re.compile(r"(ERROR|WARNING|SUMMARY): [A-Za-z]*Sanitizer|: runtime error: ")


def have_binaries() -> bool:
    return PAWL.exists() and PAWLD.exists()


def user_namespaces() -> bool:
    """Whether this machine makes them at all: in a chroot no kernel does, not even for root."""
    return subprocess.run(["unshare", "--user", "true"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def private_mounts() -> bool:
    """Not in a chroot: "/" is no mount there that could be made private."""
    return subprocess.run(["unshare", "-m", "--propagation", "private", "true"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def children(pid: int) -> list[int]:
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(x) for x in task.read_text().split()]
        except OSError:
            pass
    return found


def alive(pid: int) -> bool:
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


def until(what: str, test, seconds: float = 10.0) -> Any:
    """The first true value of test(); AssertionError after `seconds`."""
    end = time.monotonic() + seconds * SLOW
    while True:
        got = test()
        if got:
            return got
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds * SLOW:g} s for: {what}")
        time.sleep(0.01)


def instance_of(watcher: int) -> str | None:
    """What a watcher calls its own in the kernel, by the lock that it holds."""
    for fd in pathlib.Path(f"/proc/{watcher}/fd").glob("*"):
        try:
            to = os.readlink(fd)
        except OSError:
            continue
        if to.startswith(f"{WATCH_RUN}/lock-"):
            return to.rpartition("-")[2]
    return None


def clear_killed() -> None:
    """What killed watchers left: cgroups, pins and their mounts are taken away as any user would; notes of ends that nobody will come for, by hand."""
    def there() -> bool:
        return any((WATCH_RUN / f"lock-{name}").exists() for name in STARTED)

    for _ in range(50):  # a probe takes some of them, and none while another one looks
        if not there():
            break
        subprocess.run([str(PAWLD), "--probe"], stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60 * SLOW)
    for name in STARTED:
        shutil.rmtree(WATCH_RUN / f"trees-{name}", ignore_errors=True)
    assert not there(), f"killed watchers left what cannot be taken away: {sorted(STARTED)}"
    STARTED.clear()
    try:
        WATCH_RUN.rmdir()
    except OSError:
        pass  # others use it


class Live:
    options: tuple[str, ...] = ()  # of every start

    def __init__(self, policy: str | None = POLICY, folder: str | os.PathLike | None = None):
        # a short path: the socket's must fit 107 bytes
        self.mine = folder is None
        self.dir = pathlib.Path(folder or tempfile.mkdtemp(prefix="pawl-"))
        self.process: subprocess.Popen | None = None
        self.lines: list[str] = []
        self.reader: threading.Thread | None = None
        self.rest_pid = 0
        self.policies: list[str] = []  # every text that was ever in the file
        done = self.pawl("init", "--dir", str(self.dir))
        assert done.returncode == 0, f"pawl init: {done.stderr}"
        self.policies.append(self.policy.read_text())
        if policy is not None:
            self.write_policy(policy)

    # ---- files
    @property
    def policy(self) -> pathlib.Path:
        return self.dir / "policy.yaml"

    @property
    def agent(self) -> str:
        return str(self.dir / "run" / "agent.sock")

    @property
    def operator(self) -> str:
        return str(self.dir / "run" / "operator" / "operator.sock")

    @property
    def log_dir(self) -> pathlib.Path:
        return self.dir / "log"

    def segments(self) -> list[pathlib.Path]:
        """Without the spare one, which is empty."""
        return sorted(self.log_dir.glob("journal-" + "[0-9]" * 20))

    def write_policy(self, text: str) -> None:
        self.policies.append(text)
        new = self.policy.with_suffix(".new")
        new.write_text(text)
        new.chmod(0o600)
        new.rename(self.policy)

    # ---- programs
    def pawl(self, *args: str, timeout: float = 60) -> subprocess.CompletedProcess:
        return subprocess.run([str(PAWL), *args], capture_output=True, text=True, timeout=timeout * SLOW, stdin=subprocess.DEVNULL)

    def entries(self) -> list[dict[str, Any]]:
        """Every entry of the log in order: seq, body (parsed) and note (the signed bytes). From --raw; --json must say the same bodies."""
        raw, bodies = (self.pawl("log", "show", "--dir", str(self.dir), how) for how in ("--raw", "--json"))
        for done in (raw, bodies):
            assert done.returncode == 0, f"pawl log show: {done.returncode} {done.stderr}"
        notes = [n[:-1] for n in re.split(r"(?m)^(?=pawl-entry/v1$)", raw.stdout) if n]  # an empty line lies between notes
        bodies = bodies.stdout.splitlines()[: len(notes)]  # read later: a running pawld may have written more
        assert [n.split("\n")[4] for n in notes] == bodies, "--raw and --json differ"
        return [{"seq": int(n.split("\n")[2]), "body": note_body(n), "note": n} for n in notes]

    def verify(self, *more: str) -> subprocess.CompletedProcess:
        return self.pawl("log", "verify", "--dir", str(self.dir), *more)

    def replay(self, *more: str, texts: list[str] | None = None) -> tuple[int, dict[str, Any]]:
        """`pawl log replay` with every policy that the log names: exit status and what it said."""
        bodies = [json.loads(x) for x in self.pawl("log", "show", "--dir", str(self.dir), "--json").stdout.split("\n") if x]
        named = {b["policy"]["hash"] if b["kind"] == "start" else b.get("hash") for b in bodies if b["kind"] in ("start", "policy")}
        words: list[str] = []
        for text in self.policies if texts is None else texts:
            name = hashlib.sha256(text.encode()).hexdigest()
            path = self.dir / f"was-{name}.yaml"
            if str(path) not in words and (name in named or texts is not None):
                path.write_text(text)
                words += ["--policy", str(path)]
        done = self.pawl("log", "replay", "--dir", str(self.dir), "--json", *words, *more)
        assert done.stdout, done
        return done.returncode, json.loads(done.stdout)

    def spawn(self, *more: str) -> subprocess.Popen:
        more = *self.options, *more
        env = dict(os.environ, LSAN_OPTIONS="detect_leaks=0") if "--no-watch" in more else None  # alone it is confined: no search in /proc at its end
        return subprocess.Popen([str(PAWLD), "--dir", str(self.dir), *more], env=env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")

    def try_start(self, *more: str, seconds: float = 10) -> tuple[int, str]:
        """For refusals: exit status and what it said. A daemon that comes up instead is stopped and reported as status 0."""
        p = self.spawn(*more)
        said: list[str] = []

        def read() -> None:
            for line in p.stderr:
                said.append(line)
                if READY in line:
                    p.terminate()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            code = p.wait(seconds * SLOW)
        except subprocess.TimeoutExpired:
            p.terminate()
            code = p.wait(10 * SLOW)
        reader.join(5 * SLOW)
        text = "".join(said)
        assert not ALARM.search(text), text
        return 0 if READY in text else code, text

    def start(self, *more: str, seconds: float = 20) -> "Live":
        self.no_alarm()
        self.process = self.spawn(*more)
        self.lines = []
        ready = threading.Event()

        def read(p: subprocess.Popen) -> None:
            for line in p.stderr:
                self.lines.append(line.rstrip("\n"))
                if READY in line:
                    ready.set()
            ready.set()

        self.reader = threading.Thread(target=read, args=(self.process,), daemon=True)
        self.reader.start()
        if not ready.wait(seconds * SLOW) or not any(READY in x for x in self.lines):
            said = "\n".join(self.lines)
            self.kill()
            raise AssertionError(f"pawld did not get ready:\n{said}")
        self.rest_pid = self.status()["pid"]["rest"]
        STARTED.update(filter(None, [instance_of(self.process.pid)]))
        return self

    @property
    def watcher_pid(self) -> int:
        return self.process.pid

    def stop(self, seconds: float = 10) -> int:
        """TERM, as systemd would. Returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(seconds * SLOW)
        self.process = None
        self.no_alarm()
        return code

    def no_alarm(self) -> None:
        """The daemon has ended: no sanitizer may have spoken while it ran."""
        if self.reader is not None:
            self.reader.join(5 * SLOW)
            self.reader = None
            found = [i for i, line in enumerate(self.lines) if ALARM.search(line)]
            assert not found, "\n".join(self.lines[found[0] :][:60])

    def kill(self) -> None:
        """Both processes, at once."""
        if self.process is None:
            return
        pids = [*children(self.process.pid), self.rest_pid]
        self.process.kill()
        self.process.wait()
        self.process = None
        for pid in pids:
            if pid and alive(pid) and PAWLD.name in pathlib.Path(f"/proc/{pid}/comm").read_text():
                os.kill(pid, signal.SIGKILL)
        until("the killed processes are gone", lambda: not any(pid and alive(pid) for pid in pids))
        self.no_alarm()

    def __enter__(self) -> "Live":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.kill()
            self.no_alarm()  # of one that a test ended by itself
        finally:
            if self.mine:
                shutil.rmtree(self.dir, ignore_errors=True)

    # ---- doors
    def door(self, timeout: float = 10) -> Stream:
        return Stream(self.agent, timeout * SLOW)

    def session(self, **more: Any) -> Session:
        return Session(self.door(), **more)

    def ask_operator(self, op: str, **more: Any) -> dict[str, Any]:
        with Stream(self.operator, 10 * SLOW) as s:
            return s.ask({"v": 1, "op": op, **more})

    def status(self) -> dict[str, Any]:
        return self.ask_operator("status")

    def seq(self) -> int:
        return self.status()["log"]["seq"]

    def answers(self) -> bool:
        try:
            with Stream(self.agent, 2 * SLOW) as s:
                return "server" in s.ask({"v": 1, "op": "hello"})
        except OSError:
            return False

    def wait_answers(self, seconds: float = 20) -> None:
        until("hello is answered", self.answers, seconds)


def note_hash(note: str) -> tuple[int, str]:
    """(sequence, hex SHA-256) of a signed entry's text: what `pawl log verify --at-least` takes."""
    text = note[: note.rindex("\n\n") + 1]
    lines = text.split("\n")
    return int(lines[2]), hashlib.sha256(text.encode()).hexdigest()


def note_body(note: str) -> dict[str, Any]:
    return json.loads(note.split("\n")[4])


def note_prev(note: str) -> bytes:
    return base64.b64decode(note.split("\n")[3])


def nano(text: str | None) -> int:
    """Decimal text to int64 nano-units, without a float."""
    if text is None:
        return 0
    whole, _, part = text.partition(".")
    sign = -1 if whole.startswith("-") else 1
    return sign * (abs(int(whole)) * 10**9 + int((part + "0" * 9)[:9] or 0))
