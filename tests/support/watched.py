"""A pawld that watches, in a cgroup that bounds it, and what the tests of the watch ask about it. Only what a user has is used: programs, files, log.

Everything that is started here is inside one pids cgroup of the test's own and carries a mark in its environment: a watch that does not hold costs a
failed test, and nothing is left running when it is over.
"""
from __future__ import annotations

import atexit
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from typing import Any

import pytest

from live import BUILD, PAWL, SLOW, Live, children, until

PROGRAMS = BUILD / "tests" / "kernel"
SHORT = os.environ.get("PAWL_TEST_SHORT") == "1"
MARK = "PAWL_TEST_WATCH"


COPIES: list[pathlib.Path] = []  # the folder of for_everybody, once there is one


def for_everybody(path: pathlib.Path) -> str:
    """The program itself, or a copy that every user gets at: a checkout may lie in a home of mode 0700, as root's is."""
    if path.stat().st_mode & 0o005 == 0o005 and all(p.stat().st_mode & 0o001 for p in path.resolve().parents):
        return str(path)
    if not COPIES:
        COPIES.append(folder_for_all())
        atexit.register(shutil.rmtree, COPIES[0], ignore_errors=True)
    copy = COPIES[0] / path.name
    if not copy.exists():
        shutil.copy2(path, copy)
        copy.chmod(0o755)
    return str(copy)


def program(name: str) -> str:
    path = PROGRAMS / name
    assert path.exists(), f"{path}: make kernel-programs"
    return for_everybody(path)


def skip_unless_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("this needs root: cgroups, BPF")


# ---- who lives

def names_in(folder: str) -> list[str]:
    try:
        return [x for x in os.listdir(folder) if x.isdigit()]
    except OSError:
        return []


def lives(task: str) -> bool:
    try:
        with open(f"{task}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def process_lives(pid: int) -> bool:
    """Any thread of it: the first one may have ended before the others."""
    return any(lives(f"/proc/{pid}/task/{t}") for t in names_in(f"/proc/{pid}/task"))


def with_text(name: str, text: str) -> list[int]:
    """Live processes with text in /proc/PID/task/TID/<name> of any thread. What comes and goes meanwhile may be missed."""
    found, want = [], text.encode()
    for pid in names_in("/proc"):
        for task in names_in(f"/proc/{pid}/task"):
            path = f"/proc/{pid}/task/{task}"
            try:
                with open(f"{path}/{name}", "rb") as f:
                    hit = want in f.read()
            except OSError:
                continue
            if hit and lives(path):
                found.append(int(pid))
                break
    return sorted(found)


def is_pawl(pid: int) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/exe") == str(PAWL)
    except OSError:
        return False


def left(mark: str) -> list[int]:
    """Who has the mark among its arguments, but for `pawl run`, which was given it for another."""
    return [pid for pid in with_text("cmdline", mark) if not is_pawl(pid)]


def said_of(pids: list[int]) -> str:
    lines = []
    for pid in pids:
        try:
            groups = pathlib.Path(f"/proc/{pid}/cgroup").read_text().split()
            lines.append(f"{pid}: {pathlib.Path(f'/proc/{pid}/cmdline').read_bytes()!r} {[g for g in groups if g.startswith(('0:', '1:')) or 'pids' in g]}")
        except OSError:
            pass
    return "\n".join(lines)


def new_mark() -> str:
    return f"mark-{uuid.uuid4().hex[:16]}"


# ---- the bound

def mounts(kind: str) -> list[tuple[pathlib.Path, str]]:
    """(where, options) of every mount of a kind of file system."""
    rows = [line.split() for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
    return [(pathlib.Path(r[4]), r[-1]) for r in rows if r[r.index("-") + 1] == kind]


def pids_root() -> pathlib.Path | None:
    """A folder in which a cgroup with pids.max can be made."""
    for where, options in mounts("cgroup"):
        if "pids" in options.split(","):
            return where
    for where, _ in mounts("cgroup2"):
        if "pids" in (where / "cgroup.controllers").read_text().split():
            (where / "cgroup.subtree_control").write_text("+pids")
            return where
    return None


class Bound:
    """At most `most` processes and threads, whatever happens."""

    def __init__(self, most: int = 2000):
        root = pids_root()
        if root is None:
            pytest.skip("no pids cgroup can be made here, and nothing that forks without end is run without")
        self.dir = root / f"pawl-bound-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self.dir.mkdir()
        (self.dir / "pids.max").write_text(str(most))
        self.mark = uuid.uuid4().hex

    def enter(self) -> None:
        """In the child, before its exec."""
        (self.dir / "cgroup.procs").write_text("0")

    def env(self, **more: str) -> dict[str, str]:
        return {**os.environ, MARK: self.mark, **more}

    def popen(self, *cmd: Any, **how: Any) -> subprocess.Popen:
        return subprocess.Popen([str(c) for c in cmd], preexec_fn=self.enter, env=how.pop("env", None) or self.env(),
                                stdin=how.pop("stdin", subprocess.DEVNULL), **how)

    def pids(self) -> set[int]:
        found = set(with_text("environ", self.mark))
        for procs in [self.dir / "cgroup.procs", *self.dir.rglob("cgroup.procs")]:
            try:
                found |= {int(x) for x in procs.read_text().split()}
            except OSError:
                pass
        return {pid for pid in found if pid != os.getpid() and process_lives(pid)}

    def peak(self) -> int | None:
        """Processes and threads at the same time, as the kernel counted them for this cgroup; None where it does not tell."""
        path = self.dir / "pids.peak"
        return int(path.read_text()) if path.exists() else None

    def kill(self) -> None:
        for _ in range(500):
            pids = self.pids()
            if not pids:
                return
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.02)
        raise AssertionError(f"cannot be ended: {said_of(sorted(self.pids()))}")

    def end(self) -> None:
        self.kill()
        for folder in sorted((p for p in self.dir.rglob("*") if p.is_dir()), key=lambda p: -len(p.parts)):
            folder.rmdir()
        until("the test's cgroup can be removed", lambda: rmdir(self.dir), 5)


def rmdir(path: pathlib.Path) -> bool:
    try:
        path.rmdir()
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


# ---- the daemon

POLICY = """pawl: 1
name: watch-test
default: deny
rules:
  - {id: work, allow: [work]}
sessions: {lease: 1h, calls: 1000000, open: 1000}
limits: {decide: 100000/s, burst: 100000}
"""


def policy(more: str = "", **watch: Any) -> str:
    """A policy whose watch section has these keys, in YAML's flow form."""
    def text(v: Any) -> str:
        return "[" + ", ".join(f'"{x}"' for x in v) + "]" if isinstance(v, (list, tuple)) else str(v)

    return POLICY + more + "watch: {" + ", ".join(f"{k}: {text(v)}" for k, v in watch.items()) + "}\n...\n"


class Watched(Live):
    """pawld and what it watches, all of it in one Bound."""

    def __init__(self, text: str, most: int = 2000, options: tuple[str, ...] = ()):
        self.bound = Bound(most)
        self.options = options
        # not in /tmp: in the folders above what is hidden from it, a watched command can make no new names
        super().__init__(text, tempfile.mkdtemp(prefix="pawl-watch-", dir="/var/lib"))

    def spawn(self, *more: str) -> subprocess.Popen:
        from live import PAWLD
        return self.bound.popen(PAWLD, "--dir", self.dir, *self.options, *more, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")

    def run(self, *cmd: Any, user: str | None = None, more: tuple[str, ...] = (), **how: Any) -> subprocess.Popen:
        """`pawl run`, on its way. Standard output and error are pipes unless said otherwise."""
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "errors": "replace", **how}
        who = ["--user", user] if user else []
        return self.bound.popen(PAWL, "run", "--dir", self.dir, *who, *more, "--", *cmd, **how)

    def done(self, *cmd: Any, seconds: float = 60, **how: Any) -> subprocess.CompletedProcess:
        """`pawl run` to its end, which is also the end of everybody who has its standard output open."""
        p = self.run(*cmd, **how)
        try:
            out, err = p.communicate(timeout=seconds * SLOW)
        except subprocess.TimeoutExpired:
            living = said_of(sorted(self.bound.pids()))
            self.bound.kill()
            p.communicate()
            raise AssertionError(f"{cmd}: not over after {seconds * SLOW:g} s; alive:\n{living}") from None
        return subprocess.CompletedProcess(p.args, p.returncode, out, err)

    def watch_rows(self, **want: Any) -> list[dict[str, Any]]:
        """Entries of kind watch, in order, that have these fields."""
        shown = self.pawl("log", "show", "--dir", str(self.dir), "--json")
        assert shown.returncode == 0, shown.stderr
        rows = [json.loads(line) for line in shown.stdout.splitlines() if '"kind":"watch"' in line]
        return [r for r in rows if r["kind"] == "watch" and all(r.get(k) == v for k, v in want.items())]

    def end_of(self, session: str, seconds: float = 10) -> dict[str, Any]:
        """The entry that tells of a tree's end."""
        return until(f"the end of {session} in the log", lambda: self.watch_rows(action="end", session=session), seconds)[0]

    def session_of(self, p: subprocess.Popen) -> str:
        """Of a run whose command lives: the first process of a tree is a child of its launcher."""
        def found():
            return [r["session"] for r in self.watch_rows(action="attach") if r["pid"] in children(p.pid)]

        return until("the command is under watch", found, 20)[-1]

    def last_attach(self) -> dict[str, Any]:
        return self.watch_rows(action="attach")[-1]

    def ended(self, *cmd: Any, seconds: float = 60, **how: Any) -> tuple[subprocess.CompletedProcess, dict[str, Any]]:
        """A run to its end, and the end entry of its tree."""
        before = len(self.watch_rows(action="attach"))
        done = self.done(*cmd, seconds=seconds, **how)
        attached = self.watch_rows(action="attach")[before:]
        assert len(attached) == 1, f"{done}\n{attached}"
        return done, self.end_of(attached[0]["session"])

    def kills(self, session: str, why: str | None = None) -> int:
        rows = self.watch_rows(action="kill", session=session)
        return sum(r["total"] for r in rows if why is None or r["why"] == why)

    def held(self) -> set[str]:
        """What the kernel holds for a tree here: a run of nothing tells."""
        done, end = self.ended("/bin/true")
        assert done.returncode == 0, done
        return set(self.watch_rows(action="attach", session=end["session"])[0].get("held", []))

    def __exit__(self, *what: object) -> None:
        try:
            if self.process is not None and self.process.poll() is None and not what[0]:
                self.bound_but_daemon()
                self.stop(20)
        finally:
            try:
                self.kill()
            finally:
                self.bound.end()
                self.unmount()
                shutil.rmtree(self.dir, ignore_errors=True)

    def bound_but_daemon(self) -> None:
        """Ends what a test left, so that an orderly stop has nothing to wait for."""
        ours = {self.process.pid, self.rest_pid}
        for pid in self.bound.pids() - ours:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def unmount(self) -> None:
        for line in reversed(pathlib.Path("/proc/self/mountinfo").read_text().splitlines()):
            where = line.split()[4]
            if where.startswith(f"{self.dir}/"):
                subprocess.run(["umount", "-l", where], check=False)


def folder_for_all() -> pathlib.Path:
    """A folder that another user can reach and write; the caller removes it."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="pawl-kernel-"))
    path.chmod(0o777)
    return path


def tell(what: str, **numbers: Any) -> None:
    """A measured thing: printed, never asserted. pytest shows it with -s or -rP; the summary keeps it."""
    TOLD.append(f"{what}: " + ", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in numbers.items()))


TOLD: list[str] = []
